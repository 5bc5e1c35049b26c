// The tools a request declares, as far as reading calls needs them, and which of them a nameless call means.
//
// Calls of tools that were not declared are passed on under the name the model gave: the client answers that
// there is no such tool, and the model corrects itself. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace numoe {

struct DeclaredTool {
  std::string name;
  std::vector<std::string> properties;  // of its parameters
  std::vector<std::string> required;
};

/// From the request's `tools`; entries that are no functions with a name are left out.
std::vector<DeclaredTool> ReadDeclaredTools(const nlohmann::ordered_json& tools);

/// The only tool there is, or the only one whose parameters fit the arguments (JSON text); "" when that does
/// not decide.
std::string ToolByArguments(const std::vector<DeclaredTool>& tools, std::string_view arguments);

}  // namespace numoe
