// TokenMasks: which tokens of the vocabulary a state of a grammar accepts, computed once for each state.
//
// Most tokens are decided by the state alone: they stay within its rule (and the rules it calls), or break
// it. These are kept as a list or a bit mask. A token that runs past the rule's end depends on what the rule
// returns to; of those only the part after the end is kept, in a small trie that is walked with the real
// stack when a mask is asked for. A state with more such remainders than kGrammarCrossingBytesMax keeps none
// and is walked over the whole vocabulary each time. Filled on demand by whoever asks first; thread-safe.
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
    std::vector<TokenId> tokens;    // accepted, whatever the stack; or
    std::vector<uint64_t> bits;     // the same as a mask, where that is smaller
    TokenTrie crossing;             // what remains of tokens after the end of the rule
    bool walks_everything = false;  // too many remainders: nothing is kept

    size_t bytes() const;
  };

  TokenMasks(const Program* program, std::shared_ptr<const GrammarVocabulary> vocabulary);
  ~TokenMasks();
  TokenMasks(const TokenMasks&) = delete;
  TokenMasks& operator=(const TokenMasks&) = delete;

  /// Lives as long as this object, or in `spare` when kGrammarMaskBytesMax are in use. REQUIRES: `state` is
  /// not in a string; strings have tables of their own (string_tokens.h).
  const Mask& Of(StateId state, Mask& spare) const;
  /// In use by masks.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  /// Computes masks, those that take longest first, until about `steps` steps were taken.
  void Warm(size_t steps) const;
  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }

 private:
  int64_t Reach(StateId state) const;
  const Mask* Keep(StateId state, std::unique_ptr<const Mask> mask) const;

  const Program* program_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  mutable std::vector<std::atomic<const Mask*>> masks_;  // by state; owned, null until somebody asks
  mutable std::atomic<size_t> bytes_ = 0;
};

/// Sets the bits of all tokens that `machine` accepts from `kernel` on, whatever came before. False: more
/// than kGrammarMaskStepsMax steps.
bool AddAcceptedTokens(Pushdown& machine, const Kernel& kernel, const TokenMasks& masks, WalkScratch& scratch,
                       absl::Span<uint64_t> mask);

/// The same without anything precomputed: every token of the vocabulary. For states that keep no mask, and as
/// what tests compare with.
bool AddTokensByWalking(Pushdown& machine, const Kernel& kernel, const GrammarVocabulary& vocabulary,
                        WalkScratch& scratch, absl::Span<uint64_t> mask);

}  // namespace numoe::text::grammar
