// Compiles regular expressions to machines, in the ECMA-262 syntax of JSON Schema's "pattern" and the API's
// "regex".
//
// Supported are literals, classes, escapes (\d, \w and their negations are about ASCII, \s about Unicode;
// \p{L} and other general categories), groups (capturing or not), alternation, quantifiers (a lazy one
// matches the same texts) and anchors anywhere; also Python's \A, \Z and (?P<name>...). Look-around, back
// references, word boundaries, inline flags and scripts are not regular or not supported; an error names
// them. Errors give the byte position.
#pragma once

#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "coordinator/text/grammar/automaton.h"

namespace numoe::text::grammar {

enum class RegexMatch : uint8_t { kWhole, kSearch, kWithin };

/// Returns an expression for the characters of a set in the text that the machine reads, which is plain UTF-8
/// or escaped as in JSON.
using EncodeChars = absl::FunctionRef<ExprId(Expressions&, const CodepointSet&)>;

/// Compiles `pattern`. The machine matches texts that match as a whole (kWhole), or texts that contain a
/// match and consist of characters of `encode` (kSearch). With kWithin it matches the matches themselves,
/// which may be anywhere in a text whose beginning and end are unknown, so anchors are refused.
absl::StatusOr<std::shared_ptr<const Dfa>> CompileRegex(std::string_view pattern, RegexMatch match,
                                                        EncodeChars encode, const GrammarLimits& limits);

}  // namespace numoe::text::grammar
