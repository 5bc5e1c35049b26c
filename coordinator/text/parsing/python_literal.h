// Translates Python literals into JSON: models sometimes write them for lists and objects instead of JSON.
//
// Reads what ast.literal_eval and json.dumps together turn into JSON: strings in either quotes with escapes,
// numbers, True, False, None, lists, tuples and dicts. JSON's own constants (true, false, null) are read,
// too. Nesting is bounded; the time is linear in the text. A pure function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace numoe::text {

/// Returns the JSON text; nullopt if `text` is not such a literal, contains sets, bytes or sums, or is nested
/// too deeply.
std::optional<std::string> JsonOfPythonLiteral(std::string_view text);

}  // namespace numoe::text
