#include "coordinator/parsing/declared_tools.h"

#include <algorithm>

#include "common/weights/json_reader.h"

namespace numoe {
namespace {

using nlohmann::ordered_json;

const ordered_json* Member(const ordered_json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

bool Fits(const DeclaredTool& tool, const ordered_json& arguments) {
  for (const auto& [key, value] : arguments.items()) {
    if (std::find(tool.properties.begin(), tool.properties.end(), key) == tool.properties.end()) return false;
  }
  return std::all_of(tool.required.begin(), tool.required.end(),
                     [&](const std::string& key) { return arguments.contains(key); });
}

}  // namespace

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
      for (const auto& [key, value] : properties->items()) declared.properties.push_back(key);
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

}  // namespace numoe
