// TokenMasks: the tokens of the vocabulary that each state of a grammar accepts, computed once for each
// state.
//
// For most tokens the state alone decides: they stay within its rule (and the rules that it calls), or break
// it. The accepted ones are kept as a list or a bit mask. A token that extends beyond the rule's end depends
// on the state to which the rule returns; of such tokens only the remainder after the end is kept, in a small
// trie that is walked with the real stack when a mask is filled. If the remainders of a state take more than
// kGrammarCrossingBytesMax, none are kept, and the whole vocabulary is walked each time. The first thread
// that needs a mask computes it; thread-safe.
//
// Idea: Dong et al., XGrammar, https://arxiv.org/abs/2411.15100 (context-independent tokens); the vocabulary
// as a trie in depth-first order: guidance-ai/llguidance's documentation.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/text/grammar/token_trie.h"
#include "coordinator/text/grammar/vocabulary.h"

namespace numoe::text::grammar {

class TokenMasks {
 public:
  struct Mask {
    std::vector<TokenId> tokens;    // the tokens that are accepted with any stack; or
    std::vector<uint64_t> bits;     // the same tokens as a mask, if that is smaller
    TokenTrie crossing;             // the remainders of tokens after the end of the rule
    bool walks_everything = false;  // there are too many remainders, so nothing is kept

    size_t bytes() const;
  };

  TokenMasks(const Program* program, std::shared_ptr<const GrammarVocabulary> vocabulary);
  ~TokenMasks();
  TokenMasks(const TokenMasks&) = delete;
  TokenMasks& operator=(const TokenMasks&) = delete;

  /// Returns the mask of a state. It lives as long as this object, or is stored in `spare` if masks already
  /// take kGrammarMaskBytesMax. REQUIRES: `state` is not in a string; strings have other tables
  /// (string_tokens.h).
  const Mask& Of(StateId state, Mask& spare) const;
  /// The memory that masks use.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// Computes masks until about `steps` steps were taken, beginning with the masks that take longest.
  void Warm(size_t steps) const;
  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }

 private:
  int64_t Reach(StateId state) const;
  const Mask* Keep(StateId state, std::unique_ptr<const Mask> mask) const;

  const Program* program_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  mutable std::vector<std::atomic<const Mask*>> masks_;  // by state; owned, null until a mask is computed
  mutable std::atomic<size_t> bytes_ = 0;
};

/// Sets the bits of all tokens that `machine` accepts after `kernel`, and leaves other bits. Returns false if
/// that took more than kGrammarMaskStepsMax steps.
bool AddAcceptedTokens(Pushdown& machine, const Kernel& kernel, const TokenMasks& masks, WalkScratch& scratch,
                       absl::Span<uint64_t> mask);

/// Does the same by walking the whole vocabulary, without anything precomputed. For states without a mask;
/// tests compare AddAcceptedTokens with it.
bool AddTokensByWalking(Pushdown& machine, const Kernel& kernel, const GrammarVocabulary& vocabulary,
                        WalkScratch& scratch, absl::Span<uint64_t> mask);

}  // namespace numoe::text::grammar
