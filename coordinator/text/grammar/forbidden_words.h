// ForbiddenWords: which tokens would complete a word that a text must not contain.
//
// An Aho-Corasick automaton over the words' bytes follows the text; a token is forbidden where its bytes
// would lead it through the end of a word, whether the word began in this token or before it. So no word is
// in the text, however it is cut into tokens and whatever stands beside it. Where no grammar demands
// otherwise there is always a token left: a word is not completed by every byte. Built once for a request,
// then immutable and thread-safe; the state belongs to its text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "coordinator/text/grammar/vocabulary.h"

namespace numoe::text {

class ForbiddenWords {
 public:
  using State = int32_t;
  static constexpr State kStart = 0;

  /// REQUIRES: words, none of them empty.
  /// `names`: control tokens that are forbidden as well, because they would show as text with such a word.
  ForbiddenWords(const std::vector<std::string>& words, std::shared_ptr<const GrammarVocabulary> vocabulary,
                 std::vector<TokenId> names = {});

  /// Calls `forbid` for every token that completes a word behind a text in `state`; for some of them twice.
  void ForEachForbidden(State state, absl::FunctionRef<void(TokenId)> forbid) const;
  /// Behind a token more. A control token is not text, and begins one anew.
  State Next(State state, TokenId token) const;

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }

 private:
  struct Node {
    std::vector<std::pair<uint8_t, State>> children;
    State fallback = kStart;  // the longest proper end of its text that begins a word
    int depth = 0;
    bool ends = false;  // its text ends with a word
  };

  State Child(State state, uint8_t byte) const;
  State Step(State state, uint8_t byte) const;
  void Add(const std::string& word);
  void Link();
  template <typename Visit>
  void Walk(State start, bool from_before, Visit visit) const;

  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<TokenId> always_;  // names, and tokens that have a whole word in them
};

}  // namespace numoe::text
