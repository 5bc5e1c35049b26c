#include "coordinator/api/answer_constraint.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe {
namespace {

std::vector<TokenId> TokensOf(const OutputFormat& format, std::initializer_list<Mark> marks) {
  std::vector<TokenId> tokens;
  for (const auto& [token, mark] : format.marks) {
    if (std::find(marks.begin(), marks.end(), mark) != marks.end()) tokens.push_back(token);
  }
  return tokens;
}

bool IsIn(TokenId token, const std::vector<TokenId>& tokens) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

uint64_t BitOf(TokenId token) { return uint64_t{1} << (token % 64); }
size_t WordOf(TokenId token) { return static_cast<size_t>(token) / 64; }

}  // namespace

AnswerConstraint::AnswerConstraint(std::shared_ptr<const CompiledGrammar> grammar,
                                   const AnswerOutline& outline)
    : state_(grammar), mask_(grammar->vocabulary().mask_words()) {
  const GrammarVocabulary& vocabulary = grammar->vocabulary();
  think_end_ = TokensOf(outline.format, {Mark::kThinkEnd});
  if (!outline.prompt_mark) think_begin_ = TokensOf(outline.format, {Mark::kThinkBegin});
  if (outline.prompt_mark == Mark::kThinkBegin) phase_ = Phase::kReasoning;
  // Formats without sections begin with the first call.
  if (outline.calls) calls_begin_ = TokensOf(outline.format, {Mark::kSectionBegin});
  if (outline.calls && calls_begin_.empty()) calls_begin_ = TokensOf(outline.format, {Mark::kCallBegin});
  if (think_begin_.empty() && phase_ != Phase::kReasoning) return;
  reasoning_.assign(vocabulary.mask_words(), ~uint64_t{0});
  for (const TokenId token : vocabulary.end_tokens()) reasoning_[WordOf(token)] &= ~BitOf(token);
  for (const TokenId token :
       TokensOf(outline.format, {Mark::kThinkBegin, Mark::kSectionBegin, Mark::kSectionEnd, Mark::kCallBegin,
                                 Mark::kArguments, Mark::kCallEnd})) {
    if (!IsIn(token, calls_begin_)) reasoning_[WordOf(token)] &= ~BitOf(token);
  }
}

void AnswerConstraint::Allow(const std::vector<TokenId>& tokens) {
  for (const TokenId token : tokens) mask_[WordOf(token)] |= BitOf(token);
}

absl::StatusOr<absl::Span<const uint64_t>> AnswerConstraint::Mask() {
  if (phase_ == Phase::kCalls) return absl::Span<const uint64_t>();
  if (phase_ == Phase::kReasoning) return absl::MakeConstSpan(reasoning_);
  RETURN_IF_ERROR(state_.FillMask(absl::MakeSpan(mask_)));
  if (phase_ == Phase::kBegin) {
    Allow(think_begin_);
    Allow(calls_begin_);
  }
  return absl::MakeConstSpan(mask_);
}

void AnswerConstraint::Accept(TokenId token) {
  if (phase_ == Phase::kCalls) return;
  if (phase_ != Phase::kContent && IsIn(token, calls_begin_)) {
    phase_ = Phase::kCalls;
    return;
  }
  if (phase_ == Phase::kReasoning) {
    if (IsIn(token, think_end_)) phase_ = Phase::kBegin;
    return;
  }
  if (phase_ == Phase::kBegin && IsIn(token, think_begin_)) {
    think_begin_.clear();
    phase_ = Phase::kReasoning;
    return;
  }
  phase_ = Phase::kContent;
  const bool allowed = state_.Accept(token);
  NUMOE_CHECK(allowed) << "token " << token << " was not in the mask";
}

}  // namespace numoe
