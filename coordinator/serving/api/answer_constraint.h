// AnswerConstraint: what an answer may be, as token masks: reasoning, then content or calls.
//
// Content matches a grammar, or is free. Calls name declared tools and have arguments that fit them
// (call_sequence.h); where they are demanded there is no content. Reasoning comes first and is free, but
// where something must follow it cannot end the answer: the marks of the format end it. Content that matches
// a grammar may be replaced by calls, not mixed with them; free content may be followed by calls. Once calls
// have begun nothing but calls follows. White space between the marks and content of a grammar is not
// allowed.
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
  const text::OutputFormat& format;       // copied as far as needed
  std::optional<text::Mark> prompt_mark;  // PromptMark
};

/// What `request` asks of its answer; null: nothing. Compiles grammars that are not in the cache, which takes
/// milliseconds: for any thread but the engine's. Errors name the field that asked for it.
std::variant<std::unique_ptr<execution::TokenConstraint>, net::ApiError> ConstrainAnswer(
    const GenerationRequest& request, const AnswerOutline& outline, text::GrammarCache& grammars);

class AnswerConstraint final : public execution::TokenConstraint {
 public:
  struct Parts {
    std::shared_ptr<const text::CompiledGrammar> content;  // null: free
    std::optional<CallSequence> calls;                     // none
    bool calls_demanded = false;                           // no content, then
  };
  /// REQUIRES: content or calls.
  AnswerConstraint(Parts parts, const AnswerOutline& outline);

  absl::StatusOr<absl::Span<const uint64_t>> Mask() override;
  void Accept(TokenId token) override;

 private:
  // kBegin: neither content nor calls have begun. kFree: content that is free, or reasoning before it.
  enum class Phase : uint8_t { kBegin, kReasoning, kContent, kFree, kCalls };

  void MakeReasoningMask(const text::OutputFormat& format, const text::GrammarVocabulary& vocabulary);
  void Allow(const std::vector<TokenId>& tokens);

  std::optional<text::GrammarState> content_;  // none: free, or no content
  std::optional<CallSequence> calls_;
  std::vector<TokenId> think_begin_;  // empty: reasoning cannot begin any more
  std::vector<TokenId> think_end_;
  std::vector<TokenId> calls_begin_;
  std::vector<uint64_t> reasoning_;  // the mask within it
  std::vector<uint64_t> mask_;
  Phase phase_ = Phase::kBegin;
};

}  // namespace numoe::serving
