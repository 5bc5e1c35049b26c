// ForbiddenWords: finds the tokens that would complete a word that a text must not contain.
//
// An Aho-Corasick automaton over the words' bytes follows the text. A token is forbidden if its bytes would
// lead the automaton through the end of a word, whether the word began in this token or before it. Therefore
// the text contains none of the words, however it is divided into tokens and whatever is beside a word.
// Without a grammar that demands otherwise a token is always left, because no state has a word completed by
// every byte. Built once for a request, then immutable and thread-safe; a state belongs to its text.
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

  /// `names` are control tokens that are forbidden, too, because their text in the answer would have such a
  /// word. REQUIRES: at least one word, and no empty word.
  ForbiddenWords(const std::vector<std::string>& words, std::shared_ptr<const GrammarVocabulary> vocabulary,
                 std::vector<TokenId> names = {});

  /// Calls `forbid` for every token that would complete a word after a text in `state`, for some of them
  /// twice.
  void ForEachForbidden(State state, absl::FunctionRef<void(TokenId)> forbid) const;
  /// Returns the state after another token. A control token is not text: the state after it is kStart.
  State Next(State state, TokenId token) const;

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }

 private:
  struct Node {
    std::vector<std::pair<uint8_t, State>> children;
    State fallback = kStart;  // the node of the longest proper end of this node's text that begins a word
    int depth = 0;
    bool ends = false;  // this node's text ends with a word
  };

  State Child(State state, uint8_t byte) const;
  State Step(State state, uint8_t byte) const;
  void Add(const std::string& word);
  void Link();
  template <typename Visit>
  void Walk(State start, bool from_before, Visit visit) const;

  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<TokenId> always_;  // the names, and the tokens that contain a whole word
};

}  // namespace numoe::text
