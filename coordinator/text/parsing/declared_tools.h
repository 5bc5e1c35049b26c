// The tools a request declares, as far as reading calls needs them, and which of them a nameless call means.
//
// Calls of tools that were not declared are passed on under the name the model gave: the client answers that
// there is no such tool, and the model corrects itself. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace numoe::text {

/// JSON types, or'ed.
using ValueTypes = uint8_t;
enum : ValueTypes {
  kStringValue = 1,
  kNumberValue = 2,
  kBooleanValue = 4,
  kNullValue = 8,
  kArrayValue = 16,
  kObjectValue = 32,
};

struct DeclaredTool {
  std::string name;
  std::vector<std::string> properties;  // of its parameters
  std::vector<std::string> required;
  std::map<std::string, ValueTypes> types;  // of properties whose schema names them
};

/// The one that `value` has.
ValueTypes ValueTypeOf(const nlohmann::ordered_json& value);

/// From the request's `tools`; entries that are no functions with a name are left out.
std::vector<DeclaredTool> ReadDeclaredTools(const nlohmann::ordered_json& tools);

/// The only tool there is, or the only one whose parameters fit the arguments (JSON text); "" when that does
/// not decide.
std::string ToolByArguments(const std::vector<DeclaredTool>& tools, std::string_view arguments);

}  // namespace numoe::text
