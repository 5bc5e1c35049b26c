// StringTokens: which tokens a JSON string accepts at each of its places, by how many characters they hold.
//
// Free strings, with or without bounds on their length, are the states in which most of the vocabulary is
// allowed, and all grammars have the same ones. So their masks are tables of the vocabulary: from a place in
// a string (between characters, within an escape, within a character's UTF-8), tokens after which the string
// goes on and tokens that close it, sorted by the number of characters that begin in them; and what is left
// of tokens that go on after the closing quote. A bound on the length picks a range of each. Built once per
// vocabulary, immutable, thread-safe.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/text/grammar/program.h"
#include "coordinator/text/grammar/token_trie.h"

namespace numoe::text {
class GrammarVocabulary;
}

namespace numoe::text::grammar {

class StringTokens {
 public:
  static constexpr int kAnyNumber = 255;  // no token has more characters

  explicit StringTokens(const GrammarVocabulary& vocabulary);

  /// Adds the tokens of a place (a state of StringProgram) in which at most `most` characters begin, and, of
  /// those that close the string, at least `least`.
  void AddTo(StateId place, int least, int most, absl::Span<uint64_t> mask) const;
  /// What remains of tokens after the closing quote.
  const TokenTrie& AfterQuote(StateId place) const { return places_[static_cast<size_t>(place)].crossing; }

 private:
  // Tokens by the number of characters that begin in them: those with c are tokens[upto[c - 1], upto[c]).
  struct Counted {
    std::vector<TokenId> tokens;
    std::array<uint32_t, kAnyNumber + 1> upto = {};
    absl::Span<const TokenId> Between(int least, int most) const;
  };
  struct Place {
    Counted open;     // the string goes on
    Counted closing;  // they end with its closing quote
    TokenTrie crossing;
    std::vector<std::vector<uint64_t>>
        open_masks;             // [c]: open tokens with at most c characters; large places
    std::vector<uint64_t> all;  // open and closing ones; large places
  };
  void Build(const GrammarVocabulary& vocabulary, StateId state, Place& place) const;

  std::vector<Place> places_;  // by state of StringProgram
};

/// A JSON string of any length as a program of its own. The string rules of all grammars have the same states
/// in the same order.
const Program& StringProgram();

/// The place between two characters of StringProgram.
StateId BetweenCharacters();

}  // namespace numoe::text::grammar
