// Tool declarations as Kimi-K2.5 has learnt to read them: TypeScript, not JSON.
//
// The published tokeniser sorts the keys of tools and gives the template a variable tools_ts_str; the
// template prints JSON where that is missing. Schemas that the published code refuses give no text here
// either, byte for byte the same otherwise. Source: tool_declaration_ts.py published with Kimi-K2.5. Pure
// functions.
#pragma once

#include <optional>
#include <string>

#include "nlohmann/json.hpp"

namespace numoe::text {

/// The same value with the keys of every object in order, as Kimi's tokenisers do before they render tools.
nlohmann::ordered_json SortKeys(const nlohmann::ordered_json& value);

/// `tools`: as in a request, keys sorted. "" if none of them is a function.
std::optional<std::string> ToolsAsTypeScript(const nlohmann::ordered_json& tools);

}  // namespace numoe::text
