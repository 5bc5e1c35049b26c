// StringTokens: the tokens that a JSON string accepts at each of its places, sorted by their number of
// characters.
//
// Free strings, with or without bounds on their length, are the states in which most of the vocabulary is
// allowed, and they are the same in all grammars. Therefore their masks come from tables of the vocabulary.
// For each place in a string (between characters, within an escape, within a character's UTF-8) there are the
// tokens after which the string continues and the tokens that close it, both sorted by the number of
// characters that begin in them, and the remainders after the closing quote of tokens that continue beyond
// it. A bound on the length selects a range of each table. Built once for a vocabulary, then immutable and
// thread-safe.
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
  static constexpr int kAnyNumber = 255;  // the most characters that a token can have

  explicit StringTokens(const GrammarVocabulary& vocabulary);

  /// Adds to `mask` the tokens of a place (a state of StringProgram) in which at most `most` characters
  /// begin. Tokens that close the string are added only if at least `least` characters begin in them.
  void AddTo(StateId place, int least, int most, absl::Span<uint64_t> mask) const;
  /// The remainders of tokens after the closing quote.
  const TokenTrie& AfterQuote(StateId place) const { return places_[static_cast<size_t>(place)].crossing; }

 private:
  // Tokens sorted by the number of characters that begin in them: tokens[upto[c - 1], upto[c]) have c
  // characters.
  struct Counted {
    std::vector<TokenId> tokens;
    std::array<uint32_t, kAnyNumber + 1> upto = {};
    absl::Span<const TokenId> Between(int least, int most) const;
  };
  struct Place {
    Counted open;        // tokens after which the string continues
    Counted closing;     // tokens that end with the closing quote
    TokenTrie crossing;  // the remainders of tokens after the closing quote
    // The next two are filled only for places with at least kLargePlace open tokens.
    std::vector<std::vector<uint64_t>> open_masks;  // [c] a mask of the open tokens with at most c characters
    std::vector<uint64_t> all;                      // a mask of the open and closing tokens
  };
  void Build(const GrammarVocabulary& vocabulary, StateId state, Place& place) const;

  std::vector<Place> places_;  // by state of StringProgram
};

/// A JSON string of any length as a separate program. The string rules of all grammars have the same states
/// in the same order.
const Program& StringProgram();

/// The place between two characters of StringProgram.
StateId BetweenCharacters();

}  // namespace numoe::text::grammar
