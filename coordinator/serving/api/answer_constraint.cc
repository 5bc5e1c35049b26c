#include "coordinator/serving/api/answer_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/grammar/token_trie.h"

namespace numoe::serving {
namespace {

std::vector<TokenId> TokensOf(const text::OutputFormat& format, std::initializer_list<text::Mark> marks) {
  std::vector<TokenId> tokens;
  for (const auto& [token, mark] : format.marks) {
    if (std::find(marks.begin(), marks.end(), mark) != marks.end()) tokens.push_back(token);
  }
  return tokens;
}

net::ApiError Refusal(const std::string& param, const absl::Status& status) {
  return net::BadRequest(param, fmt::format("'{}': {}", param, std::string(status.message())));
}

}  // namespace

std::variant<std::unique_ptr<execution::TokenConstraint>, net::ApiError> ConstrainAnswer(
    const GenerationRequest& request, const AnswerOutline& outline, text::GrammarCache& grammars) {
  static const CallPolicy none;
  const CallPolicy& policy = request.conversation ? request.conversation->calls : none;
  // Calls in XML are parsed, but there is no grammar for them: they are sampled freely and cannot be
  // demanded.
  const bool can_call =
      outline.format.tools != text::ToolSyntax::kNone && outline.format.tools != text::ToolSyntax::kQwenCoder;
  AnswerConstraint::Parts parts{.content = nullptr, .calls = {}, .calls_demanded = policy.demanded()};
  if (policy.demanded() && !can_call) {
    return net::BadRequest("tool_choice",
                           "'tool_choice': a call is demanded, but there is no grammar for this model's "
                           "format of tool calls; use "
                           "\"auto\"");
  }
  if (!can_call && request.structure && !policy.calls.empty() &&
      outline.format.tools != text::ToolSyntax::kNone) {
    return net::BadRequest(
        request.structure_param,
        fmt::format("'{}': expected a request without tools, because there is no grammar for this model's "
                    "format of tool calls; leave out the tools or this field",
                    request.structure_param));
  }
  if (can_call && !policy.calls.empty()) {
    auto forms = CompileCallForms(policy.calls, outline.format.tools, grammars);
    if (!forms.ok()) return Refusal("tools", forms.status());
    parts.calls.emplace(*std::move(forms), outline.format, policy);
  }
  if (request.structure && !policy.demanded()) {
    auto content = grammars.Get(*request.structure);
    if (!content.ok()) return Refusal(request.structure_param, content.status());
    parts.content = *std::move(content);
  }
  if (parts.content == nullptr && !parts.calls) return nullptr;
  return std::make_unique<AnswerConstraint>(std::move(parts), outline);
}

AnswerConstraint::AnswerConstraint(Parts parts, const AnswerOutline& outline)
    : calls_(std::move(parts.calls)) {
  NUMOE_CHECK(parts.content != nullptr || calls_.has_value());
  NUMOE_CHECK(!parts.calls_demanded || calls_.has_value());
  if (parts.content != nullptr && !parts.calls_demanded) content_.emplace(parts.content);
  const text::GrammarVocabulary& vocabulary =
      parts.content != nullptr ? parts.content->vocabulary() : calls_->vocabulary();
  mask_.resize(vocabulary.mask_words());
  NUMOE_CHECK(!mask_.empty());
  if (!content_ && !parts.calls_demanded) {
    phase_ = Phase::kFree;
    return;
  }
  think_end_ = TokensOf(outline.format, {text::Mark::kThinkEnd});
  if (!outline.prompt_mark) think_begin_ = TokensOf(outline.format, {text::Mark::kThinkBegin});
  if (outline.prompt_mark == text::Mark::kThinkBegin) phase_ = Phase::kReasoning;
  if (calls_) calls_begin_ = calls_->FirstMarks();
  if (!think_begin_.empty() || phase_ == Phase::kReasoning) MakeReasoningMask(outline.format, vocabulary);
}

void AnswerConstraint::MakeReasoningMask(const text::OutputFormat& format,
                                         const text::GrammarVocabulary& vocabulary) {
  reasoning_.assign(vocabulary.mask_words(), ~uint64_t{0});
  const auto forbid = [this](const std::vector<TokenId>& tokens) {
    for (const TokenId token : tokens)
      reasoning_[static_cast<size_t>(token) / 64] &= ~(uint64_t{1} << (token % 64));
  };
  forbid({vocabulary.end_tokens().begin(), vocabulary.end_tokens().end()});
  forbid(TokensOf(format, {text::Mark::kThinkBegin, text::Mark::kSectionBegin, text::Mark::kSectionEnd,
                           text::Mark::kCallBegin, text::Mark::kArguments, text::Mark::kCallEnd}));
  for (const TokenId token : calls_begin_) text::grammar::SetBit(absl::MakeSpan(reasoning_), token);
}

void AnswerConstraint::Allow(const std::vector<TokenId>& tokens) {
  for (const TokenId token : tokens) text::grammar::SetBit(absl::MakeSpan(mask_), token);
}

absl::StatusOr<absl::Span<const uint64_t>> AnswerConstraint::Mask() {
  if (phase_ == Phase::kFree) return absl::Span<const uint64_t>();
  NUMOE_DCHECK(phase_ != Phase::kReasoning || reasoning_.size() == mask_.size());
  if (phase_ == Phase::kReasoning) return absl::MakeConstSpan(reasoning_);
  std::fill(mask_.begin(), mask_.end(), 0);
  NUMOE_CHECK(content_.has_value() || calls_.has_value());
  if (phase_ == Phase::kBegin) {
    Allow(think_begin_);
    Allow(calls_begin_);
  }
  // Demanded calls may begin with white space, which their own mask allows.
  RETURN_IF_ERROR(phase_ == Phase::kCalls || !content_ ? calls_->AddMask(absl::MakeSpan(mask_))
                                                       : content_->AddMask(absl::MakeSpan(mask_)));
  return absl::MakeConstSpan(mask_);
}

void AnswerConstraint::Accept(TokenId token) {
  if (phase_ == Phase::kCalls) return calls_->Accept(token);
  if (phase_ != Phase::kContent && calls_ && calls_->Begins(token)) {
    phase_ = Phase::kCalls;
    return calls_->Accept(token);
  }
  if (phase_ == Phase::kFree) return;
  if (phase_ == Phase::kReasoning) {
    if (absl::c_linear_search(think_end_, token)) phase_ = Phase::kBegin;
    return;
  }
  if (phase_ == Phase::kBegin && absl::c_linear_search(think_begin_, token)) {
    think_begin_.clear();
    phase_ = Phase::kReasoning;
    return;
  }
  if (!content_) {
    phase_ = Phase::kCalls;
    return calls_->Accept(token);
  }
  phase_ = Phase::kContent;
  const bool allowed = content_->Accept(token);
  NUMOE_CHECK(allowed) << "token " << token << " was not in the mask";
}

}  // namespace numoe::serving
