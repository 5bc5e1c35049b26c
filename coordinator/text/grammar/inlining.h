// Chooses the rules of a grammar that are copied into their users instead of being called.
//
// A copied rule costs no call and no return, and no token extends across its end, so masks are known in
// advance. A rule is copied if it is not recursive, not marked as shared, and its copies together are small.
// A pure function.
#pragma once

#include <vector>

#include "coordinator/text/grammar/expression.h"
#include "coordinator/text/grammar/grammar_limits.h"

namespace numoe::text::grammar {

/// Returns for each RuleId whether it is inlined. Rules that `root` does not use have unspecified values.
/// `root` itself is not inlined.
std::vector<bool> ChooseInlined(const Expressions& expressions, RuleId root, const GrammarLimits& limits);

}  // namespace numoe::text::grammar
