// Limits of structured output, and GrammarLimits: how large a grammar from a client may become while it is
// compiled.
//
// The names of the constants have the unit: bytes, tokens, steps or a number of things. Every stage whose
// result can be larger than its input is bounded by a field of GrammarLimits and fails with
// RESOURCE_EXHAUSTED, naming the limit. The fields' defaults are the constants; tests and fuzz targets pass
// smaller ones. Results that are kept for speed are kept up to their limit; beyond it they are computed each
// time.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- structured output -----------------------------------------------------------------------------------
// Usual sources have a few kB; 1 MB of any kind compiles or is refused within about a second.
inline constexpr size_t kGrammarSourceBytesMax = 1 << 20;
inline constexpr size_t kGrammarNestingMax =
    200;  // the same as for templates; a level takes a few stack frames
inline constexpr size_t kGrammarExpressionsMax = 1'000'000;
// A property of a schema takes about 30 states; 400,000 are 16 MB while compiling.
inline constexpr size_t kGrammarNfaStatesMax = 400'000;
inline constexpr size_t kGrammarDfaStatesMax = 60'000;
inline constexpr size_t kGrammarSubsetItemsMax = 4'000'000;  // 16 MB
// Derivations of a text that are followed at the same time. JSON needs a few; ambiguous EBNF can need any
// number.
inline constexpr size_t kGrammarThreadsMax = 1'024;
// Automaton steps for one mask; walking Kimi's whole vocabulary with one derivation takes 0.4 million.
inline constexpr size_t kGrammarMaskStepsMax = 4'000'000;
inline constexpr size_t kGrammarCrossingBytesMax = 1
                                                   << 20;  // remainders of tokens that are kept for one state
// Steps for the masks that are computed while compiling: a few ms, enough for all states of usual schemas.
inline constexpr size_t kGrammarWarmStepsMax = 1'000'000;
// Masks that are kept for a grammar. With Kimi's vocabulary a mask takes 20 kB if most tokens are allowed.
// Beyond the limit, masks are computed each time.
inline constexpr size_t kGrammarMaskBytesMax = 64ull << 20;
inline constexpr size_t kGrammarCacheBytesMax = 512ull << 20;  // grammars of past requests
// Limits of a pattern that is searched for in the text of an answer. A byte takes at most one step for each
// state.
inline constexpr size_t kPatternSourceBytesMax = 4'096;
inline constexpr size_t kPatternNfaStatesMax = 20'000;
inline constexpr size_t kPatternDfaStatesMax = 1'000;  // all patterns of an answer together
inline constexpr size_t kPatternSubsetItemsMax = 200'000;
inline constexpr size_t kGrammarRollbackTokensMax = 64;  // guessed tokens of a step of speculative decoding

}  // namespace numoe::limits

namespace numoe::text {

struct GrammarLimits {
  size_t source_bytes = limits::kGrammarSourceBytesMax;
  size_t nesting = limits::kGrammarNestingMax;           // groups or inlined rules within each other
  size_t expressions = limits::kGrammarExpressionsMax;   // nodes that a front end makes
  size_t nfa_states = limits::kGrammarNfaStatesMax;      // the whole grammar, before it is made deterministic
  size_t dfa_states = limits::kGrammarDfaStatesMax;      // the whole grammar
  size_t subset_items = limits::kGrammarSubsetItemsMax;  // NFA states in all sets while one DFA is built
  size_t warm_steps = limits::kGrammarWarmStepsMax;      // for token masks that are computed in advance
};

}  // namespace numoe::text
