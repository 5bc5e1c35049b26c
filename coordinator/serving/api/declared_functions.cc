#include "coordinator/serving/api/declared_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "common/base/check.h"
#include "coordinator/serving/api/api_limits.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

net::ApiError WrongAt(const std::string& place, const std::string& expected, const std::string& found) {
  return net::BadRequest(place, fmt::format("'{}': expected {}, found {}", place, expected, found));
}

// Formats write names between marks, white space, quotes and braces, and number calls with digits, so a name
// must not contain or be these.
bool CanBeWritten(std::string_view name) {
  const auto plain = [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != 0x7F && c != '"' && c != '\\' && c != '`' && c != '{';
  };
  return name.size() <= limits::kToolNameBytesMax && std::all_of(name.begin(), name.end(), plain) &&
         name.find_first_not_of("0123456789") != std::string_view::npos;
}

bool TakesObjects(const ordered_json& schema) {
  if (!schema.is_object()) return false;
  const auto type = schema.find("type");
  if (type == schema.end() || type->is_null()) return true;
  if (!type->is_array()) return *type == "object";
  return std::find(type->begin(), type->end(), "object") != type->end();
}

class DeclarationReader {
 public:
  explicit DeclarationReader(const DeclarationPlaces& places) : places_(places) {}

  std::optional<net::ApiError> Read(ordered_json& tools) {
    NUMOE_CHECK(tools.is_array());
    if (tools.size() > limits::kToolsMax) {
      return net::BadRequest("tools", fmt::format("'tools': expected at most {} tools, found {}",
                                                  limits::kToolsMax, tools.size()));
    }
    for (size_t i = 0; i < tools.size() && !error_; ++i) ReadTool(tools[i], fmt::format("tools[{}]", i));
    return error_;
  }

 private:
  void Fail(const std::string& place, const std::string& expected, const ordered_json* found) {
    error_ = WrongAt(place, expected, found == nullptr ? "nothing" : JsonFields::Short(*found));
  }

  static const ordered_json* Part(const ordered_json& object, const char* name) {
    const auto it = object.find(name);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }

  void ReadTool(ordered_json& tool, const std::string& where) {
    if (!tool.is_object()) return Fail(where, "an object", &tool);
    if (Part(tool, "type") == nullptr) tool["type"] = "function";
    if (tool["type"] != "function") {
      return Fail(where + ".type",
                  "\"function\": this server runs no tools itself, and its models know no other kind",
                  &tool["type"]);
    }
    const ordered_json* function = Part(tool, "function");
    if (function == nullptr || !function->is_object())
      return Fail(where + places_.function, "an object with the function's name", function);
    ReadFunction(*function, where + places_.function);
  }

  void ReadFunction(const ordered_json& function, const std::string& where) {
    const ordered_json* name = Part(function, "name");
    if (name == nullptr || !name->is_string() || !CanBeWritten(name->get_ref<const std::string&>())) {
      return Fail(
          where + ".name",
          fmt::format("a name of at most {} bytes, not only digits, without white space, quotes and braces",
                      limits::kToolNameBytesMax),
          name);
    }
    if (!names_.insert(name->get_ref<const std::string&>()).second)
      return Fail(where + ".name", "a name that no other tool has", name);
    const ordered_json* description = Part(function, "description");
    if (description != nullptr && !description->is_string())
      return Fail(where + ".description", "a string", description);
    const ordered_json* strict = Part(function, "strict");
    if (strict != nullptr && !strict->is_boolean()) return Fail(where + ".strict", "true or false", strict);
    const ordered_json* parameters = Part(function, "parameters");
    if (parameters != nullptr && !TakesObjects(*parameters))
      Fail(where + places_.parameters, "a JSON Schema of objects", parameters);
  }

  const DeclarationPlaces& places_;
  std::unordered_set<std::string> names_;
  std::optional<net::ApiError> error_;
};

}  // namespace

std::optional<net::ApiError> CheckDeclaredFunctions(const DeclarationPlaces& places, ordered_json& tools) {
  return DeclarationReader(places).Read(tools);
}

}  // namespace numoe::serving
