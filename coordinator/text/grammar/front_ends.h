// The front ends, which translate each kind of source into expressions.
//
// They check the size and the nesting of the source; their errors name the place of the problem in it.
// Whether the result is too large, or matches nothing, is found when it is translated into a program. Pure
// functions.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/text/grammar/compiled_grammar.h"
#include "coordinator/text/grammar/expression.h"

namespace numoe::text::grammar {

/// Translates a source of any kind. The returned rule matches the texts that the source describes.
absl::StatusOr<RuleId> Translate(const GrammarSource& source, const GrammarLimits& limits,
                                 Expressions& expressions);

/// Translates JSON Schema, drafts 7 to 2020-12; CONTRACT.md lists what is supported.
absl::StatusOr<RuleId> TranslateJsonSchema(std::string_view text, const GrammarLimits& limits,
                                           Expressions& expressions);

/// Translates vLLM's and SGLang's structural tags, as JSON; CONTRACT.md lists the formats.
absl::StatusOr<RuleId> TranslateStructuralTag(std::string_view text, const GrammarLimits& limits,
                                              Expressions& expressions);

/// Translates EBNF; CONTRACT.md describes the dialect.
absl::StatusOr<RuleId> TranslateEbnf(std::string_view text, const GrammarLimits& limits,
                                     Expressions& expressions);

}  // namespace numoe::text::grammar
