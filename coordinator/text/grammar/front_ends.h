// The front ends: from each kind of source to expressions.
//
// They check the source against the limits of its size and nesting and say in their errors where in it the
// trouble is; whether the result has a sensible size, and matches anything at all, is found when it is made
// into a program. Pure; one thread.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/text/grammar/compiled_grammar.h"
#include "coordinator/text/grammar/expression.h"

namespace numoe::text::grammar {

/// Any of the below. The returned rule matches what the source describes.
absl::StatusOr<RuleId> Translate(const GrammarSource& source, const GrammarLimits& limits,
                                 Expressions& expressions);

/// JSON Schema, drafts 7 to 2020-12; CONTRACT.md lists what is supported.
absl::StatusOr<RuleId> TranslateJsonSchema(std::string_view text, const GrammarLimits& limits,
                                           Expressions& expressions);

/// vLLM's and SGLang's structural tags, as JSON; CONTRACT.md lists the formats.
absl::StatusOr<RuleId> TranslateStructuralTag(std::string_view text, const GrammarLimits& limits,
                                              Expressions& expressions);

/// EBNF; CONTRACT.md has the dialect.
absl::StatusOr<RuleId> TranslateEbnf(std::string_view text, const GrammarLimits& limits,
                                     Expressions& expressions);

}  // namespace numoe::text::grammar
