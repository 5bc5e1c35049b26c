// Which rules of a grammar are copied to where they are used, instead of being called.
//
// A copied rule costs no call and no return, and no token crosses its border, so masks are known in advance.
// Copied are rules that do not recur, are not marked as shared, and whose copies together stay small. Pure.
#pragma once

#include <vector>

#include "coordinator/text/grammar/expression.h"
#include "coordinator/text/grammar/grammar_limits.h"

namespace numoe::text::grammar {

/// By RuleId; what `root` does not lead to is unspecified. `root` itself is not inlined.
std::vector<bool> ChooseInlined(const Expressions& expressions, RuleId root, const GrammarLimits& limits);

}  // namespace numoe::text::grammar
