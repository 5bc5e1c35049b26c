// AnswerConstraint: token masks for the parts of an answer: reasoning, then content or calls.
//
// Content matches a grammar, or is free. Calls name declared tools and have arguments that match them
// (call_sequence.h); if calls are demanded there is no content. Reasoning comes first and is free, but if
// content or calls must follow, it cannot end the answer: only the marks of the format end it. Content that
// matches a grammar may be replaced by calls, but not mixed with them; free content may be followed by calls.
// After the first call nothing except calls can follow. White space between the marks and content of a
// grammar is not allowed.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "coordinator/execution/sampling/token_constraint.h"
#include "coordinator/serving/api/call_sequence.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/text/grammar/grammar_cache.h"
#include "coordinator/text/parsing/output_format.h"

namespace numoe::serving {

struct AnswerOutline {
  const text::OutputFormat& format;       // copied as far as it is needed
  std::optional<text::Mark> prompt_mark;  // the result of PromptMark
};

/// Returns the constraint that `request` demands of its answer, or null if it demands none. Compiles grammars
/// that are not in the cache, which takes milliseconds, so the engine's thread must not call this. Errors
/// name the field that demands the constraint.
std::variant<std::unique_ptr<execution::TokenConstraint>, net::ApiError> ConstrainAnswer(
    const GenerationRequest& request, const AnswerOutline& outline, text::GrammarCache& grammars);

class AnswerConstraint final : public execution::TokenConstraint {
 public:
  struct Parts {
    std::shared_ptr<const text::CompiledGrammar> content;  // null if the content is free
    std::optional<CallSequence> calls;                     // nullopt if calls are not possible
    bool calls_demanded = false;                           // true: there is no content
  };
  /// REQUIRES: parts.content or parts.calls is set.
  AnswerConstraint(Parts parts, const AnswerOutline& outline);

  absl::StatusOr<absl::Span<const uint64_t>> Mask() override;
  void Accept(TokenId token) override;

 private:
  // kBegin: neither content nor calls have begun. kFree: free content, or reasoning before it.
  enum class Phase : uint8_t { kBegin, kReasoning, kContent, kFree, kCalls };

  void MakeReasoningMask(const text::OutputFormat& format, const text::GrammarVocabulary& vocabulary);
  void Allow(const std::vector<TokenId>& tokens);

  std::optional<text::GrammarState> content_;  // nullopt if the content is free, or there is none
  std::optional<CallSequence> calls_;
  std::vector<TokenId> think_begin_;  // becomes empty when reasoning cannot begin any more
  std::vector<TokenId> think_end_;
  std::vector<TokenId> calls_begin_;
  std::vector<uint64_t> reasoning_;  // the mask during the reasoning
  std::vector<uint64_t> mask_;
  Phase phase_ = Phase::kBegin;
};

}  // namespace numoe::serving
