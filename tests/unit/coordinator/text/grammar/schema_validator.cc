#include "tests/unit/coordinator/text/grammar/schema_validator.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

namespace numoe::text {
namespace {

using nlohmann::json;

size_t Length(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool HasType(const json& value, const std::string& type) {
  if (type == "integer")
    return value.is_number_integer() ||
           (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
  return (type == "null" && value.is_null()) || (type == "boolean" && value.is_boolean()) ||
         (type == "number" && value.is_number()) || (type == "string" && value.is_string()) ||
         (type == "array" && value.is_array()) || (type == "object" && value.is_object());
}

class Validator {
 public:
  explicit Validator(const json& root) : root_(root) {}

  bool Holds(const json& schema, const json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("$ref") && !Holds(Target(schema["$ref"].get<std::string>()), value)) return false;
    if (schema.contains("enum") && std::count(schema["enum"].begin(), schema["enum"].end(), value) == 0)
      return false;
    if (schema.contains("const") && schema["const"] != value) return false;
    if (!TypeHolds(schema, value) || !CombinationsHold(schema, value)) return false;
    if (value.is_string()) return StringHolds(schema, value.get<std::string>());
    if (value.is_number()) return NumberHolds(schema, value.get<double>());
    if (value.is_array()) return ArrayHolds(schema, value);
    return !value.is_object() || ObjectHolds(schema, value);
  }

 private:
  const json& Target(const std::string& reference) const {
    return root_.at(json::json_pointer(reference.substr(1)));
  }

  static bool TypeHolds(const json& schema, const json& value) {
    if (!schema.contains("type")) return true;
    const json& type = schema["type"];
    if (type.is_string()) return HasType(value, type.get<std::string>());
    return std::any_of(type.begin(), type.end(),
                       [&](const json& one) { return HasType(value, one.get<std::string>()); });
  }

  bool CombinationsHold(const json& schema, const json& value) const {
    const auto holding = [&](const char* keyword) {
      return std::count_if(schema[keyword].begin(), schema[keyword].end(),
                           [&](const json& one) { return Holds(one, value); });
    };
    return (!schema.contains("allOf") ||
            holding("allOf") == static_cast<std::ptrdiff_t>(schema["allOf"].size())) &&
           (!schema.contains("anyOf") || holding("anyOf") > 0) &&
           (!schema.contains("oneOf") || holding("oneOf") == 1);
  }

  static bool StringHolds(const json& schema, const std::string& text) {
    if (schema.contains("minLength") && Length(text) < schema["minLength"].get<size_t>()) return false;
    if (schema.contains("maxLength") && Length(text) > schema["maxLength"].get<size_t>()) return false;
    return !schema.contains("pattern") ||
           std::regex_search(text, std::regex(schema["pattern"].get<std::string>(), std::regex::ECMAScript));
  }

  static bool NumberHolds(const json& schema, double number) {
    const auto bound = [&schema](const char* keyword) { return schema[keyword].get<double>(); };
    if (schema.contains("minimum") && number < bound("minimum")) return false;
    if (schema.contains("exclusiveMinimum") && number <= bound("exclusiveMinimum")) return false;
    if (schema.contains("maximum") && number > bound("maximum")) return false;
    if (schema.contains("exclusiveMaximum") && number >= bound("exclusiveMaximum")) return false;
    return !schema.contains("multipleOf") || std::fmod(number, bound("multipleOf")) == 0;
  }

  bool ArrayHolds(const json& schema, const json& value) const {
    if (schema.contains("minItems") && value.size() < schema["minItems"].get<size_t>()) return false;
    if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<size_t>()) return false;
    const size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      if (i < prefix && !Holds(schema["prefixItems"][i], value[i])) return false;
      if (i >= prefix && schema.contains("items") && !Holds(schema["items"], value[i])) return false;
    }
    return true;
  }

  bool ObjectHolds(const json& schema, const json& value) const {
    if (schema.contains("minProperties") && value.size() < schema["minProperties"].get<size_t>())
      return false;
    if (schema.contains("maxProperties") && value.size() > schema["maxProperties"].get<size_t>())
      return false;
    if (schema.contains("required"))
      for (const json& name : schema["required"])
        if (!value.contains(name.get<std::string>())) return false;
    for (const auto& [key, member] : value.items()) {
      bool mentioned = false;
      if (schema.contains("properties") && schema["properties"].contains(key)) {
        mentioned = true;
        if (!Holds(schema["properties"][key], member)) return false;
      }
      if (schema.contains("patternProperties")) {
        for (const auto& [pattern, one] : schema["patternProperties"].items()) {
          if (!std::regex_search(key, std::regex(pattern, std::regex::ECMAScript))) continue;
          mentioned = true;
          if (!Holds(one, member)) return false;
        }
      }
      if (mentioned) continue;
      if (schema.contains("additionalProperties") && !Holds(schema["additionalProperties"], member))
        return false;
    }
    return true;
  }

  const json& root_;
};

}  // namespace

bool IsValid(const json& root, const json& schema, const json& value) {
  return Validator(root).Holds(schema, value);
}

}  // namespace numoe::text
