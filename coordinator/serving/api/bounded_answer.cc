#include "coordinator/serving/api/bounded_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/grammar/token_trie.h"

namespace numoe::serving {
namespace {

bool EndsReasoning(const text::OutputFormat& format) {
  return std::any_of(format.marks.begin(), format.marks.end(),
                     [](const auto& mark) { return mark.second == text::Mark::kThinkEnd; });
}

// Control tokens that would appear as text and have one of the words in their names.
std::vector<TokenId> NamesWith(const std::vector<std::string>& words, const text::OutputFormat& format,
                               const text::Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < tokenizer.VocabSize(); ++token) {
    const std::string_view name = tokenizer.TokenBytes(token);
    if (tokenizer.SpecialId(name) != token || tokenizer.IsSpecial(token) || format.Find(token)) continue;
    const auto within = [name](const std::string& word) { return name.find(word) != std::string_view::npos; };
    if (std::any_of(words.begin(), words.end(), within)) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

std::shared_ptr<const text::ForbiddenWords> ForbidWords(const GenerationRequest& request,
                                                        const text::GrammarCache& grammars,
                                                        const text::OutputFormat& format,
                                                        const text::Tokenizer& tokenizer) {
  if (request.bad_words.empty()) return nullptr;
  return std::make_shared<const text::ForbiddenWords>(request.bad_words, grammars.vocabulary(),
                                                      NamesWith(request.bad_words, format, tokenizer));
}

std::variant<std::unique_ptr<execution::TokenConstraint>, net::ApiError> BoundAnswer(
    std::unique_ptr<execution::TokenConstraint> inner, const GenerationRequest& request,
    const AnswerOutline& outline, std::shared_ptr<const text::ForbiddenWords> words,
    const text::GrammarVocabulary& vocabulary) {
  std::optional<int> budget = request.thinking_budget;
  if (budget && !EndsReasoning(outline.format)) {
    // Anthropic's clients send a budget to every model; a model without reasoning cannot exceed it.
    const std::string& param = request.thinking_budget_param;
    if (param != "thinking") {
      return net::BadRequest(param,
                             fmt::format("'{}': expected no budget, because this model's answers have no "
                                         "marks that end the reasoning; leave it out",
                                         param));
    }
    budget.reset();
  }
  if (words == nullptr && !budget) return inner;
  return std::make_unique<BoundedAnswer>(
      BoundedAnswer::Parts{.inner = std::move(inner), .words = std::move(words), .thinking_budget = budget},
      outline, vocabulary);
}

BoundedAnswer::BoundedAnswer(Parts parts, const AnswerOutline& outline,
                             const text::GrammarVocabulary& vocabulary)
    : parts_(std::move(parts)),
      marks_(outline.format.marks),
      mask_words_(vocabulary.mask_words()),
      vocabulary_size_(vocabulary.size()),
      reasoning_(outline.prompt_mark == text::Mark::kThinkBegin) {
  NUMOE_CHECK(parts_.words != nullptr || parts_.thinking_budget.has_value());
  if (!parts_.thinking_budget) return;
  NUMOE_CHECK(EndsReasoning(outline.format) && *parts_.thinking_budget >= 0);
  reasoning_end_.assign(mask_words_, 0);
  for (const auto& [token, mark] : marks_) {
    NUMOE_CHECK(token >= 0 && token < vocabulary_size_) << token;
    if (mark == text::Mark::kThinkEnd) text::grammar::SetBit(absl::MakeSpan(reasoning_end_), token);
  }
}

bool BoundedAnswer::MustEndReasoning() const {
  return reasoning_ && parts_.thinking_budget && reasoning_tokens_ >= *parts_.thinking_budget;
}

absl::StatusOr<absl::Span<const uint64_t>> BoundedAnswer::Mask() {
  if (MustEndReasoning()) return absl::MakeConstSpan(reasoning_end_);
  absl::Span<const uint64_t> inner;
  if (parts_.inner != nullptr) {
    ASSIGN_OR_RETURN(inner, parts_.inner->Mask());
  }
  if (parts_.words == nullptr) return inner;
  bool forbids = false;
  const auto clear = [&](TokenId token) {
    if (!std::exchange(forbids, true)) {
      inner.empty() ? mask_.assign(mask_words_, ~uint64_t{0}) : mask_.assign(inner.begin(), inner.end());
    }
    const auto bit = static_cast<size_t>(token);
    if (bit / 64 < mask_.size()) mask_[bit / 64] &= ~(uint64_t{1} << bit % 64);
  };
  parts_.words->ForEachForbidden(words_state_, clear);
  if (!forbids) return inner;
  if (std::all_of(mask_.begin(), mask_.end(), [](uint64_t word) { return word == 0; })) {
    return absl::InvalidArgumentError(
        "bad_words: structured output or tool_choice cannot be satisfied without one of these words; leave "
        "the "
        "word out, or change what the answer must match");
  }
  return absl::MakeConstSpan(mask_);
}

void BoundedAnswer::Accept(TokenId token) {
  NUMOE_DCHECK(token >= 0 && token < vocabulary_size_) << token;
  if (parts_.inner != nullptr) parts_.inner->Accept(token);
  if (parts_.words != nullptr) words_state_ = parts_.words->Next(words_state_, token);
  FollowReasoning(token);
}

// Any mark except the one that begins the reasoning ends it, because calls may follow without the mark that
// ends the reasoning.
void BoundedAnswer::FollowReasoning(TokenId token) {
  const auto mark =
      std::find_if(marks_.begin(), marks_.end(), [token](const auto& one) { return one.first == token; });
  if (mark != marks_.end()) {
    reasoning_ = mark->second == text::Mark::kThinkBegin;
  } else if (reasoning_) {
    ++reasoning_tokens_;
  }
}

}  // namespace numoe::serving
