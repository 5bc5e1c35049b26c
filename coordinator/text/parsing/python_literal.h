// Python literals as JSON: what models write for lists and objects when they forget that JSON was asked for.
//
// Reads what ast.literal_eval and json.dumps together turn into JSON: strings in either quotes with escapes,
// numbers, True, False, None, lists, tuples and dicts. Names of JSON's constants are read, too. Nesting is
// bounded; the time is linear in the text. A pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace numoe::text {

/// The JSON text, nullopt where `text` is no such literal, holds sets, bytes or sums, or nests too deeply.
std::optional<std::string> JsonOfPythonLiteral(std::string_view text);

}  // namespace numoe::text
