#include "coordinator/text/grammar/compiled_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/grammar/front_ends.h"
#include "coordinator/text/grammar/grammar_limits.h"

namespace numoe::text {

size_t GrammarSource::bytes() const {
  size_t bytes = text.size() + after.size();
  for (const std::string& one : before) bytes += one.size();
  return bytes;
}

CompiledGrammar::CompiledGrammar(grammar::Program program,
                                 std::shared_ptr<const GrammarVocabulary> vocabulary)
    : program_(std::move(program)), masks_(&program_, std::move(vocabulary)) {}

absl::StatusOr<std::shared_ptr<const CompiledGrammar>> CompiledGrammar::Compile(
    const GrammarSource& source, std::shared_ptr<const GrammarVocabulary> vocabulary,
    const GrammarLimits& limits) {
  if (source.bytes() > limits.source_bytes) {
    return absl::ResourceExhaustedError(
        fmt::format("the grammar has {} bytes, expected at most {}", source.bytes(), limits.source_bytes));
  }
  NUMOE_CHECK(vocabulary != nullptr);
  grammar::Expressions expressions;
  ASSIGN_OR_RETURN(const grammar::RuleId root, grammar::Translate(source, limits, expressions));
  ASSIGN_OR_RETURN(grammar::Program program, grammar::Program::Build(expressions, root, limits));
  auto compiled = std::make_shared<const CompiledGrammar>(std::move(program), std::move(vocabulary));
  compiled->masks_.Warm(limits.warm_steps);
  return compiled;
}

GrammarState::GrammarState(std::shared_ptr<const CompiledGrammar> grammar,
                           absl::Span<const TokenId> end_tokens)
    : grammar_(std::move(grammar)), machine_(&grammar_->program()), kernel_(machine_.Start()) {
  if (end_tokens.empty()) end_tokens = grammar_->vocabulary().end_tokens();
  end_tokens_.assign(end_tokens.begin(), end_tokens.end());
  for (const TokenId end : end_tokens_) NUMOE_CHECK(end >= 0 && end < grammar_->vocabulary().size()) << end;
}

absl::Status GrammarState::FillMask(absl::Span<uint64_t> mask) {
  std::fill(mask.begin(), mask.end(), 0);
  return AddMask(mask);
}

absl::Status GrammarState::AddMask(absl::Span<uint64_t> mask) {
  NUMOE_CHECK_EQ(mask.size(), grammar_->vocabulary().mask_words());
  thread_local grammar::WalkScratch scratch;
  return FinishMask(grammar::AddAcceptedTokens(machine_, kernel_, grammar_->masks(), scratch, mask), mask);
}

absl::Status GrammarState::FillMaskByWalking(absl::Span<uint64_t> mask) {
  NUMOE_CHECK_EQ(mask.size(), grammar_->vocabulary().mask_words());
  std::fill(mask.begin(), mask.end(), 0);
  grammar::WalkScratch scratch;
  return FinishMask(grammar::AddTokensByWalking(machine_, kernel_, grammar_->vocabulary(), scratch, mask),
                    mask);
}

absl::Status GrammarState::FinishMask(bool within_budget, absl::Span<uint64_t> mask) const {
  if (!within_budget || machine_.overflowed()) {
    return absl::ResourceExhaustedError(
        "the grammar is too ambiguous: the text so far has too many derivations to follow; write the grammar "
        "so that fewer rules match the same text");
  }
  if (!IsDone()) return absl::OkStatus();
  for (const TokenId end : end_tokens_) grammar::SetBit(mask, end);
  return absl::OkStatus();
}

bool GrammarState::Accept(TokenId token) {
  if (finished_ || token < 0 || token >= grammar_->vocabulary().size()) return false;
  Snapshot before = {kernel_, machine_.frames().size(), finished_};
  if (IsDone() && std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end()) {
    finished_ = true;
    kernel_.Clear();
  } else if (!AcceptText(grammar_->vocabulary().bytes(token))) {
    kernel_ = std::move(before.kernel);
    machine_.frames().Truncate(before.frames);
    return false;
  }
  NUMOE_DCHECK_LE(history_.size(), limits::kGrammarRollbackTokensMax);
  history_.push_back(std::move(before));
  if (history_.size() > limits::kGrammarRollbackTokensMax) history_.pop_front();
  return true;
}

// Advances kernel_ over `bytes`. If the grammar refuses one of them, returns false, and kernel_ is dead.
bool GrammarState::AcceptText(std::string_view bytes) {
  grammar::Kernel next;
  for (const char byte : bytes) {
    machine_.Step(kernel_, static_cast<uint8_t>(byte), next);
    std::swap(kernel_, next);
    if (!kernel_.alive()) return false;
  }
  return !bytes.empty();
}

void GrammarState::Rollback(size_t tokens) {
  if (tokens == 0) return;
  NUMOE_CHECK_LE(tokens, history_.size());
  Snapshot& target = history_[history_.size() - tokens];
  NUMOE_DCHECK_LE(target.frames, machine_.frames().size());
  kernel_ = std::move(target.kernel);
  finished_ = target.finished;
  machine_.frames().Truncate(target.frames);
  history_.resize(history_.size() - tokens);
}

std::string GrammarState::ForcedBytes(size_t bytes_max) const {
  std::string forced;
  grammar::Pushdown machine = machine_;
  grammar::Kernel kernel = kernel_, next;
  while (forced.size() < bytes_max && !kernel.reached_base) {
    const grammar::ByteSet bytes = machine.NextBytes(kernel);
    if (bytes.count() != 1) break;
    const auto byte = static_cast<uint8_t>(bytes._Find_first());
    machine.Step(kernel, byte, next);
    std::swap(kernel, next);
    forced.push_back(static_cast<char>(byte));
  }
  return forced;
}

}  // namespace numoe::text
