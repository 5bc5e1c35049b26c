// Limits of structured output, and GrammarLimits: how large a grammar from a client may become while it is
// compiled.
//
// Constants with the unit in the name: bytes, tokens, steps, or how many. Every stage that can grow beyond
// its input counts against one of GrammarLimits and refuses with RESOURCE_EXHAUSTED naming it; its defaults
// are the constants, tests and fuzz targets pass smaller ones. What is kept for speed is kept up to its limit
// and computed each time beyond it.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- structured output -----------------------------------------------------------------------------------
// Sources are a few kB; 1 MB of any of them compiles or is refused within a second or so.
inline constexpr size_t kGrammarSourceBytesMax = 1 << 20;
inline constexpr size_t kGrammarNestingMax = 200;  // as templates; every level is a few stack frames
inline constexpr size_t kGrammarExpressionsMax = 1'000'000;
// A property of a schema takes about 30 states; 400,000 are 16 MB while compiling.
inline constexpr size_t kGrammarNfaStatesMax = 400'000;
inline constexpr size_t kGrammarDfaStatesMax = 60'000;
inline constexpr size_t kGrammarSubsetItemsMax = 4'000'000;  // 16 MB
// Derivations of one text that are followed at once. JSON needs a handful; ambiguous EBNF can ask for any
// number.
inline constexpr size_t kGrammarThreadsMax = 1'024;
// Automaton steps for one mask; walking Kimi's whole vocabulary with one derivation takes 0.4 million.
inline constexpr size_t kGrammarMaskStepsMax = 4'000'000;
inline constexpr size_t kGrammarCrossingBytesMax = 1 << 20;  // token remainders kept for one state
// Steps for masks computed while compiling; a few ms, and all states of usual schemas.
inline constexpr size_t kGrammarWarmStepsMax = 1'000'000;
// Masks kept for one grammar; 20 kB each at Kimi's vocabulary where most tokens are allowed. Beyond, they are
// computed each time.
inline constexpr size_t kGrammarMaskBytesMax = 64ull << 20;
inline constexpr size_t kGrammarCacheBytesMax = 512ull << 20;  // grammars of past requests
// A pattern that is looked for in the text of an answer: a byte costs as many steps as it has states, at
// most.
inline constexpr size_t kPatternSourceBytesMax = 4'096;
inline constexpr size_t kPatternNfaStatesMax = 20'000;
inline constexpr size_t kPatternDfaStatesMax = 1'000;  // of all patterns of an answer
inline constexpr size_t kPatternSubsetItemsMax = 200'000;
inline constexpr size_t kGrammarRollbackTokensMax = 64;  // drafted tokens of one speculative step

}  // namespace numoe::limits

namespace numoe::text {

struct GrammarLimits {
  size_t source_bytes = limits::kGrammarSourceBytesMax;
  size_t nesting = limits::kGrammarNestingMax;          // of groups, of inlined rules
  size_t expressions = limits::kGrammarExpressionsMax;  // nodes a front end makes
  size_t nfa_states = limits::kGrammarNfaStatesMax;  // of the whole grammar, before it is made deterministic
  size_t dfa_states = limits::kGrammarDfaStatesMax;  // of the whole grammar
  size_t subset_items = limits::kGrammarSubsetItemsMax;  // NFA states in all sets met while making one DFA
  size_t warm_steps = limits::kGrammarWarmStepsMax;      // for token masks computed in advance
};

}  // namespace numoe::text
