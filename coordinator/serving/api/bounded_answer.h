// BoundedAnswer: words that an answer must not contain, and how long it may think, as token masks.
//
// Stands between the engine and what else constrains the answer (answer_constraint.h), if anything does, and
// takes tokens out of its masks. Words are forbidden in all that is generated. When the reasoning has as many
// tokens as it may have, nothing but the mark that ends it can come; what else constrains the answer goes on
// behind the mark. All that it knows follows from the tokens that were accepted. One for each answer; one
// thread.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "coordinator/execution/sampling/token_constraint.h"
#include "coordinator/serving/api/answer_constraint.h"
#include "coordinator/text/grammar/forbidden_words.h"

namespace numoe::serving {

/// The words of `request` as its answers share them; null: none. Control tokens that `format` has no marks of
/// are text where they are not special: one whose name has such a word is forbidden, too.
std::shared_ptr<const text::ForbiddenWords> ForbidWords(const GenerationRequest& request,
                                                        const text::GrammarCache& grammars,
                                                        const text::OutputFormat& format,
                                                        const text::Tokenizer& tokenizer);

/// `inner` (null: any text) within the bounds of `request`; itself if there are none. An error names the
/// field.
std::variant<std::unique_ptr<execution::TokenConstraint>, net::ApiError> BoundAnswer(
    std::unique_ptr<execution::TokenConstraint> inner, const GenerationRequest& request,
    const AnswerOutline& outline, std::shared_ptr<const text::ForbiddenWords> words,
    const text::GrammarVocabulary& vocabulary);

class BoundedAnswer final : public execution::TokenConstraint {
 public:
  struct Parts {
    std::unique_ptr<execution::TokenConstraint> inner;  // null: any text
    std::shared_ptr<const text::ForbiddenWords> words;  // null: none
    std::optional<int> thinking_budget;                 // none: as long as it likes
  };
  /// REQUIRES: a budget only where the format has a mark that ends the reasoning.
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
  std::vector<uint64_t> reasoning_end_;  // the marks that end the reasoning, as a mask
  std::vector<uint64_t> mask_;
  text::ForbiddenWords::State said_ = text::ForbiddenWords::kStart;
  bool reasoning_ = false;
  int64_t reasoning_tokens_ = 0;
};

}  // namespace numoe::serving
