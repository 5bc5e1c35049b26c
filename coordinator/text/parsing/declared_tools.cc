#include "coordinator/text/parsing/declared_tools.h"

#include <algorithm>

#include "common/json/json_reader.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;

const ordered_json* Member(const ordered_json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

// Returns the type with a name of JSON Schema, or with one of Python or C, which some programs pass on; 0 if
// the name is unknown. Integers are numbers. Longer names (uint32, list[str]) are recognised by their
// beginnings.
ValueTypes TypeNamed(const ordered_json& name) {
  static constexpr std::pair<std::string_view, ValueTypes> kNames[] = {
      {"string", kStringValue},  {"str", kStringValue},     {"text", kStringValue},
      {"varchar", kStringValue}, {"char", kStringValue},    {"boolean", kBooleanValue},
      {"bool", kBooleanValue},   {"binary", kBooleanValue}, {"null", kNullValue},
      {"none", kNullValue},      {"array", kArrayValue},    {"arr", kArrayValue},
      {"tuple", kArrayValue},    {"object", kObjectValue}};
  static constexpr std::pair<std::string_view, ValueTypes> kBeginnings[] = {
      {"int", kNumberValue},      {"uint", kNumberValue}, {"long", kNumberValue},  {"short", kNumberValue},
      {"unsigned", kNumberValue}, {"num", kNumberValue},  {"float", kNumberValue}, {"double", kNumberValue},
      {"list", kArrayValue},      {"dict", kObjectValue}};
  if (!name.is_string()) return 0;
  std::string lower = name.get<std::string>();
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const auto& [known, type] : kNames) {
    if (lower == known) return type;
  }
  for (const auto& [known, type] : kBeginnings) {
    if (lower.compare(0, known.size(), known) == 0) return type;
  }
  return 0;
}

constexpr int kSchemaDepthMax = 16;

// Returns the types that values of `schema` may have; 0 if it does not name any. `$ref` is looked up in
// `root`.
ValueTypes TypesOf(const ordered_json& schema, const ordered_json& root, int depth = 0) {
  if (depth > kSchemaDepthMax) return 0;
  ValueTypes types = 0;
  if (const ordered_json* type = Member(schema, "type"); type != nullptr) {
    if (type->is_array()) {
      for (const ordered_json& name : *type) types |= TypeNamed(name);
    } else {
      types = TypeNamed(*type);
    }
    return types;
  }
  if (const ordered_json* reference = Member(schema, "$ref");
      reference != nullptr && reference->is_string()) {
    const auto path = reference->get<std::string>();
    for (const char* place : {"$defs", "definitions"}) {
      const std::string prefix = std::string("#/") + place + "/";
      const ordered_json* all = Member(root, place);
      if (all == nullptr || path.rfind(prefix, 0) != 0) continue;
      const ordered_json* found = Member(*all, path.c_str() + prefix.size());
      return found == nullptr ? ValueTypes{0} : TypesOf(*found, root, depth + 1);
    }
    return 0;
  }
  for (const char* choice : {"anyOf", "oneOf", "allOf"}) {
    const ordered_json* schemas = Member(schema, choice);
    if (schemas == nullptr || !schemas->is_array()) continue;
    for (const ordered_json& one : *schemas) types |= TypesOf(one, root, depth + 1);
  }
  if (const ordered_json* values = Member(schema, "enum"); values != nullptr && values->is_array()) {
    for (const ordered_json& value : *values) types |= ValueTypeOf(value);
  }
  if (const ordered_json* value = Member(schema, "const"); value != nullptr) types |= ValueTypeOf(*value);
  return types;
}

bool Fits(const DeclaredTool& tool, const ordered_json& arguments) {
  for (const auto& [key, value] : arguments.items()) {
    if (std::find(tool.properties.begin(), tool.properties.end(), key) == tool.properties.end()) return false;
  }
  return std::all_of(tool.required.begin(), tool.required.end(),
                     [&](const std::string& key) { return arguments.contains(key); });
}

}  // namespace

ValueTypes ValueTypeOf(const ordered_json& value) {
  return value.is_string()    ? kStringValue
         : value.is_number()  ? kNumberValue
         : value.is_boolean() ? kBooleanValue
         : value.is_null()    ? kNullValue
         : value.is_array()   ? kArrayValue
                              : kObjectValue;
}

std::vector<DeclaredTool> ReadDeclaredTools(const ordered_json& tools) {
  std::vector<DeclaredTool> out;
  if (!tools.is_array()) return out;
  for (const ordered_json& tool : tools) {
    const ordered_json* function = Member(tool, "function");
    const ordered_json* name = function == nullptr ? nullptr : Member(*function, "name");
    if (name == nullptr || !name->is_string()) continue;
    DeclaredTool& declared = out.emplace_back(DeclaredTool{.name = name->get<std::string>()});
    const ordered_json* parameters = Member(*function, "parameters");
    if (parameters == nullptr) continue;
    if (const ordered_json* properties = Member(*parameters, "properties");
        properties != nullptr && properties->is_object()) {
      for (const auto& [key, value] : properties->items()) {
        declared.properties.push_back(key);
        if (const ValueTypes types = TypesOf(value, *parameters); types != 0) declared.types[key] = types;
      }
    }
    if (const ordered_json* required = Member(*parameters, "required");
        required != nullptr && required->is_array()) {
      for (const ordered_json& key : *required) {
        if (key.is_string()) declared.required.push_back(key.get<std::string>());
      }
    }
  }
  return out;
}

std::string ToolByArguments(const std::vector<DeclaredTool>& tools, std::string_view arguments) {
  if (tools.size() == 1) return tools[0].name;
  const absl::StatusOr<ordered_json> parsed = ParseBoundedJson(arguments);
  if (!parsed.ok() || !parsed->is_object()) return "";
  std::string found;
  for (const DeclaredTool& tool : tools) {
    if (!Fits(tool, *parsed)) continue;
    if (!found.empty()) return "";
    found = tool.name;
  }
  return found;
}

}  // namespace numoe::text
