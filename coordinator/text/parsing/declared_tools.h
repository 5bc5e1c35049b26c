// The tools that a request declares, with the details that reading calls needs, and the choice of a tool for
// a call without a name.
//
// A call of an undeclared tool is passed on with the name that the model wrote, so that the client can answer
// that this tool does not exist and the model can correct itself. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace numoe::text {

/// A set of JSON types, one bit for each.
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
  std::vector<std::string> properties;  // the names of its parameters
  std::vector<std::string> required;
  std::map<std::string, ValueTypes> types;  // by property, for the properties whose schema names types
};

/// Returns the type of `value`.
ValueTypes ValueTypeOf(const nlohmann::ordered_json& value);

/// Reads the request's `tools`. Entries that are not functions with a name are left out.
std::vector<DeclaredTool> ReadDeclaredTools(const nlohmann::ordered_json& tools);

/// Returns the name of the only tool, or of the only one whose parameters fit the arguments (JSON text); ""
/// if no tool or several tools fit.
std::string ToolByArguments(const std::vector<DeclaredTool>& tools, std::string_view arguments);

}  // namespace numoe::text
