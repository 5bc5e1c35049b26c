// Writes tool declarations as TypeScript, the form on which Kimi-K2.5 was trained, instead of JSON.
//
// The published tokeniser sorts the keys of tools and passes a variable tools_ts_str to the template; without
// the variable the template prints JSON. For schemas that the published code refuses there is no text here
// either; otherwise the text is the same, byte for byte. Source: tool_declaration_ts.py published with
// Kimi-K2.5. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "nlohmann/json.hpp"

namespace numoe::text {

/// Returns the value with the keys of every object sorted, as Kimi's tokenisers do before they render tools.
nlohmann::ordered_json SortKeys(const nlohmann::ordered_json& value);

/// Returns the declarations; "" if none of the tools is a function, nullopt if a schema is refused. `tools`
/// has the form of a request, with sorted keys.
std::optional<std::string> ToolsAsTypeScript(const nlohmann::ordered_json& tools);

}  // namespace numoe::text
