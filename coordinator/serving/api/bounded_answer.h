// BoundedAnswer: token masks that exclude forbidden words and limit the length of the reasoning.
//
// It wraps the other constraint of the answer (answer_constraint.h), if there is one, and removes tokens from
// its masks. Words are forbidden in everything that is generated. When the reasoning has used up its budget
// of tokens, only the mark that ends it is allowed; the other constraint continues after the mark. The state
// depends only on the accepted tokens. Each answer has its own object; one thread.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "coordinator/execution/sampling/token_constraint.h"
#include "coordinator/serving/api/answer_constraint.h"
#include "coordinator/text/grammar/forbidden_words.h"

namespace numoe::serving {

/// The forbidden words of `request`, shared by its answers; null if there are none. Control tokens that are
/// not marks of `format` and not special appear as text, so those with such a word in their name are
/// forbidden too.
std::shared_ptr<const text::ForbiddenWords> ForbidWords(const GenerationRequest& request,
                                                        const text::GrammarCache& grammars,
                                                        const text::OutputFormat& format,
                                                        const text::Tokenizer& tokenizer);

/// Returns `inner` (null: any text) with the limits of `request`, or `inner` itself if there are none. An
/// error names the field.
std::variant<std::unique_ptr<execution::TokenConstraint>, net::ApiError> BoundAnswer(
    std::unique_ptr<execution::TokenConstraint> inner, const GenerationRequest& request,
    const AnswerOutline& outline, std::shared_ptr<const text::ForbiddenWords> words,
    const text::GrammarVocabulary& vocabulary);

class BoundedAnswer final : public execution::TokenConstraint {
 public:
  struct Parts {
    std::unique_ptr<execution::TokenConstraint> inner;  // null if any text is allowed
    std::shared_ptr<const text::ForbiddenWords> words;  // null if no words are forbidden
    std::optional<int> thinking_budget;                 // tokens of reasoning; nullopt if there is no limit
  };
  /// REQUIRES: if there is a budget, the format has a mark that ends the reasoning.
  BoundedAnswer(Parts parts, const AnswerOutline& outline, const text::GrammarVocabulary& vocabulary);

  absl::StatusOr<absl::Span<const uint64_t>> Mask() override;
  void Accept(TokenId token) override;
  bool ends_text() const override { return parts_.inner != nullptr && parts_.inner->ends_text(); }

 private:
  bool MustEndReasoning() const;
  void FollowReasoning(TokenId token);

  const Parts parts_;
  const std::vector<std::pair<TokenId, text::Mark>> marks_;
  const size_t mask_words_;
  const int vocabulary_size_;
  std::vector<uint64_t> reasoning_end_;  // the mask of the marks that end the reasoning
  std::vector<uint64_t> mask_;
  text::ForbiddenWords::State words_state_ = text::ForbiddenWords::kStart;
  bool reasoning_ = false;
  int64_t reasoning_tokens_ = 0;
};

}  // namespace numoe::serving
