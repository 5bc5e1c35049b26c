// Regular expressions as machines: ECMA-262 syntax, as JSON Schema's "pattern" and the API's "regex" use it.
//
// Literals, classes, escapes (\d \w \s and their negations are ASCII but for \s; \p{L} and other general
// categories), groups (capturing or not), alternation, quantifiers (a lazy one matches the same texts),
// anchors anywhere. Also Python's \A, \Z and (?P<name>...). Not regular or not supported, and refused by
// name: look-around, back references, word boundaries, inline flags, scripts. Errors give the byte position.
#pragma once

#include <memory>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "coordinator/text/grammar/automaton.h"

namespace numoe::text::grammar {

enum class RegexMatch : uint8_t { kWhole, kSearch, kWithin };

/// How a character of a set is written in the text that the machine reads: as UTF-8, or escaped as in JSON.
using EncodeChars = absl::FunctionRef<ExprId(Expressions&, const CodepointSet&)>;

/// kSearch: texts that contain a match, written in characters that `encode` can write. kWithin: matches in
/// the midst of a text, of which nobody knows where it begins and ends, so that anchors are refused.
absl::StatusOr<std::shared_ptr<const Dfa>> CompileRegex(std::string_view pattern, RegexMatch match,
                                                        EncodeChars encode, const GrammarLimits& limits);

}  // namespace numoe::text::grammar
