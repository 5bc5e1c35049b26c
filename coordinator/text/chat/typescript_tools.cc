#include "coordinator/text/chat/typescript_tools.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_json.h"
#include "coordinator/text/chat/jinja_repr.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kIndent = "  ";
constexpr std::string_view kDefinitions = "#/$defs/";

const ordered_json* Find(const ordered_json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

// Returns whether Python would treat the value as true.
bool Truthy(const ordered_json* value) {
  if (value == nullptr || value->is_null()) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return value->get<double>() != 0;
  return value->is_string() ? !value->get_ref<const std::string&>().empty() : !value->empty();
}
std::string Printed(const ordered_json& value) { return jinja::ToStr(jinja::FromJson(value)).text(); }

std::string Joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += between;
    out += parts[i];
  }
  return out;
}

// Writes each line as a comment; empty lines stay empty.
std::string Comment(const std::string& text, const std::string& indent) {
  std::string out;
  for (size_t begin = 0;;) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) out += indent + "// " + text.substr(begin, end - begin);
    if (end == text.size()) return out;
    out += '\n';
    begin = end + 1;
  }
}

enum class Kind : uint8_t { kInvalid, kAny, kNever, kRef, kAnyOf, kEnum, kUnion, kObject, kArray, kScalar };

Kind KindOf(const ordered_json& schema) {
  if (schema.is_boolean()) return schema.get<bool>() ? Kind::kAny : Kind::kNever;
  if (!schema.is_object()) return Kind::kInvalid;
  if (schema.contains("$ref")) return Kind::kRef;
  if (schema.contains("anyOf")) return Kind::kAnyOf;
  if (schema.contains("enum")) return Kind::kEnum;
  const ordered_json* type = Find(schema, "type");
  if (type == nullptr) return schema.empty() ? Kind::kAny : Kind::kInvalid;
  if (type->is_array()) return Kind::kUnion;
  if (!type->is_string()) return Kind::kInvalid;
  return *type == "object" ? Kind::kObject : *type == "array" ? Kind::kArray : Kind::kScalar;
}

std::string_view UnionMember(const ordered_json& type) {
  if (!type.is_string()) return {};
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"string", "string"}, {"number", "number"}, {"integer", "number"},  {"boolean", "boolean"},
      {"null", "null"},     {"object", "{}"},     {"array", "Array<any>"}};
  for (const auto& [name, typescript] : kNames) {
    if (type == name) return typescript;
  }
  return {};
}

// Returns whether the values of an enum have its declared type, if there is one. A list of several types
// other than null is refused.
bool EnumFits(const ordered_json& schema) {
  const ordered_json* type = Find(schema, "type");
  if (type != nullptr && type->is_array()) {
    const ordered_json& list = *type;
    const bool nullable = list.size() == 2 && (list[0] == "null" || list[1] == "null");
    if (list.size() != 1 && !nullable) return false;
    type = list.size() == 1 || list[0] != "null" ? &list[0] : &list[1];
  }
  if (type == nullptr) return true;
  for (const ordered_json& value : schema["enum"]) {
    const bool integer = value.is_number_integer() || value.is_boolean();  // as in Python
    if (value.is_null()) continue;
    if (*type == "string" && !value.is_string()) return false;
    if (*type == "number" && !integer && !value.is_number()) return false;
    if (*type == "integer" && !integer) return false;
    if (*type == "boolean" && !value.is_boolean()) return false;
  }
  return true;
}

// The declaration of a function. The schema is first read, to find its definitions and parts that cannot be
// declared, and then written, because definitions may follow their use.
class Declaration {
 public:
  std::optional<std::string> Write(const ordered_json& function) {
    static const ordered_json none = ordered_json::object();
    const ordered_json* given = Find(function, "parameters");
    const ordered_json& parameters = Truthy(given) ? *given : none;
    if (!parameters.is_object()) return std::nullopt;
    ReadObject(parameters);
    if (failed_) return std::nullopt;
    std::vector<std::string> parts;
    const bool recursive = self_reference_;  // a reference to the parameters themselves
    if (recursive) parts.push_back("interface parameters {" + Lines(FieldsAsGiven(parameters)) + "}");
    const auto definitions = definitions_;
    for (const auto& [name, schema] : definitions) {
      Read(*schema);
      failed_ |= !schema->is_object();
      if (failed_) return std::nullopt;
      std::string comment = Description(*schema, "");
      if (!comment.empty()) comment += '\n';
      parts.push_back(comment + "interface " + name + " " + Type(*schema, ""));
    }
    if (std::string comment = Description(function, ""); !comment.empty())
      parts.push_back(std::move(comment));
    const ordered_json* name = Find(function, "name");
    parts.push_back("type " + (name == nullptr ? "function" : Printed(*name)) +
                    " = (_: " + (recursive ? "parameters" : Object(parameters, "")) + ") => any;");
    if (failed_) return std::nullopt;
    return Joined(parts, "\n");
  }

 private:
  void Read(const ordered_json& schema) {
    switch (KindOf(schema)) {
      case Kind::kInvalid:
        failed_ = true;
        break;
      case Kind::kRef:
        ReadReference(schema["$ref"]);
        break;
      case Kind::kAnyOf:
        failed_ |= !schema["anyOf"].is_array();
        if (schema["anyOf"].is_array()) {
          for (const ordered_json& type : schema["anyOf"]) Read(type);
        }
        break;
      case Kind::kEnum:
        failed_ |= !schema["enum"].is_array() || !EnumFits(schema);
        break;
      case Kind::kUnion:
        for (const ordered_json& type : schema["type"]) failed_ |= UnionMember(type).empty();
        break;
      case Kind::kObject:
        ReadObject(schema);
        break;
      case Kind::kArray:
        if (Truthy(Find(schema, "items"))) Read(schema["items"]);
        break;
      case Kind::kAny:
      case Kind::kNever:
      case Kind::kScalar:
        break;
    }
  }

  void ReadReference(const ordered_json& reference) {
    const std::string name = reference.is_string() ? reference.get<std::string>() : "";
    if (name == "#") {
      self_reference_ = true;
      return;
    }
    const bool known = std::any_of(definitions_.begin(), definitions_.end(), [&](const auto& definition) {
      return definition.first == name.substr(name.rfind('/') + 1) && definition.second->is_object();
    });
    failed_ |= name.compare(0, kDefinitions.size(), kDefinitions) != 0 || !known;
  }

  void ReadObject(const ordered_json& schema) {
    if (const ordered_json* definitions = Find(schema, "$defs"); Truthy(definitions)) {
      failed_ |= !definitions->is_object();
      if (failed_) return;
      for (const auto& [name, definition] : definitions->items()) Define(name, definition);
    }
    if (const ordered_json* more = Find(schema, "additionalProperties"); more != nullptr) {
      if (more->is_object()) Read(*more);
      failed_ |= !more->is_object() && !more->is_boolean() && !more->is_null();
    }
    const ordered_json* properties = Find(schema, "properties");
    if (properties == nullptr) return;
    const ordered_json* required = Find(schema, "required");
    failed_ |= !properties->is_object() || (required != nullptr && !required->is_array());
    if (failed_) return;
    for (const auto& [name, property] : properties->items()) Read(property);
  }

  void Define(const std::string& name, const ordered_json& schema) {
    const auto it = std::find_if(definitions_.begin(), definitions_.end(),
                                 [&](const auto& definition) { return definition.first == name; });
    if (it == definitions_.end()) {
      definitions_.emplace_back(name, &schema);
    } else {
      it->second = &schema;
    }
  }

  std::string Type(const ordered_json& schema, const std::string& indent) {
    std::vector<std::string> members;
    switch (KindOf(schema)) {
      case Kind::kInvalid:
        failed_ = true;
        return "";
      case Kind::kAny:
        return "any";
      case Kind::kNever:
        return "null";
      case Kind::kRef: {
        const auto name = schema["$ref"].get<std::string>();
        NUMOE_DCHECK(name == "#" || name.starts_with(kDefinitions)) << "Read refuses other references";
        return name == "#" ? "parameters" : name.substr(name.rfind('/') + 1);
      }
      case Kind::kAnyOf:
        for (const ordered_json& type : schema["anyOf"]) members.push_back(Type(type, indent));
        return Joined(members, " | ");
      case Kind::kEnum:
        for (const ordered_json& value : schema["enum"])
          members.push_back(value.is_string() ? '"' + value.get<std::string>() + '"' : Printed(value));
        return Joined(members, " | ");
      case Kind::kUnion:
        for (const ordered_json& type : schema["type"]) members.emplace_back(UnionMember(type));
        return Joined(members, " | ");
      case Kind::kObject:
        return Object(schema, indent);
      case Kind::kArray:
        return Array(schema, indent);
      case Kind::kScalar:
        return schema["type"] == "integer" ? "number" : schema["type"].get<std::string>();
    }
    return "";
  }

  std::string Array(const ordered_json& schema, const std::string& indent) {
    if (!Truthy(Find(schema, "items"))) return "Array<any>";
    const ordered_json& items = schema["items"];
    const std::string inner = indent + std::string(kIndent);
    const std::string comments = Comments(items, inner);
    if (comments.empty()) return "Array<" + Type(items, indent) + ">";
    return "Array<\n" + comments + inner + Type(items, inner) + "\n" + indent + ">";
  }

  std::string Object(const ordered_json& schema, const std::string& indent) {
    const std::string inner = indent + std::string(kIndent);
    std::vector<std::pair<bool, std::string>>
        names;  // (optional, name), in the order in which they are written
    if (const ordered_json* properties = Find(schema, "properties"); properties != nullptr) {
      for (const auto& [name, property] : properties->items())
        names.emplace_back(Optional(schema, name), name);
    }
    std::sort(names.begin(), names.end());
    std::vector<std::string> fields;
    for (const auto& [optional, name] : names)
      fields.push_back(Field(name, schema["properties"][name], optional, inner));
    if (const ordered_json* more = Find(schema, "additionalProperties");
        more != nullptr && !more->is_null()) {
      const std::string type = *more == true ? "any" : *more == false ? "never" : Type(*more, inner);
      fields.push_back(inner + "[k: string]: " + type);
    }
    return fields.empty() ? "{}" : "{" + Lines(fields) + indent + "}";
  }

  std::vector<std::string> FieldsAsGiven(const ordered_json& schema) {
    std::vector<std::string> fields;
    if (const ordered_json* properties = Find(schema, "properties"); properties != nullptr) {
      for (const auto& [name, property] : properties->items())
        fields.push_back(Field(name, property, Optional(schema, name), std::string(kIndent)));
    }
    return fields;
  }

  static std::string Lines(const std::vector<std::string>& fields) {
    return fields.empty() ? "" : "\n" + Joined(fields, ",\n") + "\n";
  }

  static bool Optional(const ordered_json& schema, const std::string& name) {
    const ordered_json* required = Find(schema, "required");
    return required == nullptr || std::find(required->begin(), required->end(), name) == required->end();
  }

  std::string Field(const std::string& name, const ordered_json& schema, bool optional,
                    const std::string& indent) {
    std::string out = Comments(schema, indent);
    if (const ordered_json* value = Find(schema, "default"); value != nullptr && !value->is_null()) {
      const bool plain = value->is_number() || value->is_boolean();
      const std::string text =
          plain ? Printed(*value) : jinja::ToJson(jinja::FromJson(*value), {}).value_or("");
      out += indent + "// Default: " + text + "\n";
    }
    return out + indent + name + (optional ? "?" : "") + ": " + Type(schema, indent);
  }

  // Writes the comments above a field: its description, then its constraints, each with a line break.
  std::string Comments(const ordered_json& schema, const std::string& indent) {
    const Kind kind = KindOf(schema);
    if (kind == Kind::kAny || kind == Kind::kNever) return "";
    std::string out = Description(schema, indent);
    if (!out.empty()) out += '\n';
    std::vector<const char*> keys;  // in alphabetical order
    if (kind == Kind::kArray) keys = {"maxItems", "minItems"};
    if (kind == Kind::kScalar && schema["type"] == "string") keys = {"maxLength", "minLength", "pattern"};
    if (kind == Kind::kScalar && (schema["type"] == "number" || schema["type"] == "integer"))
      keys = {"maximum", "minimum"};
    std::vector<std::string> constraints;
    for (const char* key : keys) {
      if (const ordered_json* value = Find(schema, key); value != nullptr)
        constraints.push_back(std::string(key) + ": " + Printed(*value));
    }
    if (!constraints.empty()) out += indent + "// " + Joined(constraints, ", ") + "\n";
    return out;
  }

  std::string Description(const ordered_json& schema, const std::string& indent) {
    const ordered_json* text = Find(schema, "description");
    if (!Truthy(text)) return "";
    failed_ |= !text->is_string();
    return text->is_string() ? Comment(text->get<std::string>(), indent) : "";
  }

  std::vector<std::pair<std::string, const ordered_json*>>
      definitions_;  // in the order in which they were found
  bool self_reference_ = false;
  bool failed_ = false;
};

}  // namespace

ordered_json SortKeys(const ordered_json& value) {
  if (value.is_array()) {
    ordered_json out = ordered_json::array();
    for (const ordered_json& item : value) out.push_back(SortKeys(item));
    return out;
  }
  if (!value.is_object()) return value;
  std::vector<std::pair<std::string, const ordered_json*>> members;
  for (const auto& [key, member] : value.items()) members.emplace_back(key, &member);
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ordered_json out = ordered_json::object();
  // Adds the members without operator[], whose look-up walks the object.
  auto& object = out.get_ref<ordered_json::object_t&>();
  for (const auto& [key, member] : members) object.emplace_back(key, SortKeys(*member));
  return out;
}

std::optional<std::string> ToolsAsTypeScript(const ordered_json& tools) {
  std::vector<std::string> functions;
  for (const ordered_json& tool : tools) {
    if (!tool.is_object()) return std::nullopt;
    const ordered_json* type = Find(tool, "type");
    const ordered_json* function = Find(tool, "function");
    if (type == nullptr || *type != "function" || !Truthy(function)) continue;
    if (!function->is_object()) return std::nullopt;
    std::optional<std::string> declaration = Declaration().Write(*function);
    if (!declaration) return std::nullopt;
    functions.push_back(*std::move(declaration));
  }
  if (functions.empty()) return "";
  return "# Tools\n\n## functions\nnamespace functions {\n" + Joined(functions, "\n") + "\n}\n";
}

}  // namespace numoe::text
