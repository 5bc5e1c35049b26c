// GrammarLimits: how large a grammar from a client may become while it is compiled.
//
// Every stage that can grow beyond its input counts against one of these and refuses with RESOURCE_EXHAUSTED
// naming it. The defaults are those of common/base/limits.h; tests and fuzz targets pass smaller ones.
#pragma once

#include <cstddef>

#include "common/base/limits.h"

namespace numoe {

struct GrammarLimits {
  size_t source_bytes = limits::kGrammarSourceBytesMax;
  size_t nesting = limits::kGrammarNestingMax;          // of groups, of inlined rules
  size_t expressions = limits::kGrammarExpressionsMax;  // nodes a front end makes
  size_t nfa_states = limits::kGrammarNfaStatesMax;  // of the whole grammar, before it is made deterministic
  size_t dfa_states = limits::kGrammarDfaStatesMax;  // of the whole grammar
  size_t subset_items = limits::kGrammarSubsetItemsMax;  // NFA states in all sets met while making one DFA
  size_t warm_steps = limits::kGrammarWarmStepsMax;      // for token masks computed in advance
};

}  // namespace numoe
