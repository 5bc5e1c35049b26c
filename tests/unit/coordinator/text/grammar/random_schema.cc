#include "tests/unit/coordinator/text/grammar/random_schema.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace numoe::text {
namespace {

using Json = nlohmann::ordered_json;

struct Sampled {
  const char* text;
  std::vector<const char*> samples;  // the texts between the quotes
};

const std::vector<Sampled>& Patterns() {
  static const std::vector<Sampled>* const patterns =
      new std::vector<Sampled>{{"^[a-z]+$", {"a", "abcxyz"}},
                               {"^[A-Z]{2}-\\d{3,4}$", {"AB-123", "ZZ-0000"}},
                               {"^(foo|bar)?baz$", {"baz", "foobaz"}},
                               {"b+c", {"bc", "xx bbbc yy"}},
                               {"^\"[^\"]*\"$", {"\\\"\\\"", "\\\"quoted\\\""}},
                               {"^#?([a-f0-9]{6}|[a-f0-9]{3})$", {"#abc", "123456"}},
                               {"\\.$", {".", "the end."}},
                               {"^(\\d+)(\\.\\d+){0,2}$", {"1", "10.2.33"}}};
  return *patterns;
}

const std::vector<Sampled>& Formats() {
  static const std::vector<Sampled>* const formats =
      new std::vector<Sampled>{{"date", {"2024-02-29", "1999-12-31"}},
                               {"time", {"12:00:00Z", "23:59:59.5+01:30"}},
                               {"date-time", {"2024-01-31T00:00:00Z", "2000-06-30T12:34:56.789-05:00"}},
                               {"email", {"a@b.c", "first.last+tag@sub.example.org"}},
                               {"uuid", {"123e4567-e89b-12d3-a456-426614174000"}},
                               {"ipv4", {"0.0.0.0", "192.168.1.255"}},
                               {"ipv6", {"::1", "fe80::1:2", "1:2:3:4:5:6:7:8"}},
                               {"hostname", {"localhost", "a-b.example.com"}},
                               {"uri", {"https://example.com/a/b?c=d#e", "urn:isbn:123"}},
                               {"duration", {"P1DT2H", "PT30S"}}};
  return *formats;
}

const char* const kKeys[] = {"id",    "name",          "na",      "n",          "value",
                             "type",  "kind\\\"q\\\"", "日本",    "with space", "name2",
                             "items", "x-y",           "slash/~", "Ünï",        "tail"};

}  // namespace

RandomSchema::RandomSchema(uint64_t seed) : random_(seed) {
  Json leaf = Any(3);
  Json node = {{"type", "object"},
               {"properties",
                {{"v", leaf},
                 {"next", {{"$ref", "#/$defs/node"}}},
                 {"kids", {{"type", "array"}, {"items", {{"$ref", "#/$defs/node"}}}}}}},
               {"required", {"v"}}};
  const Json top = Any(0);
  root_ = top;
  root_["$defs"] = {{"leaf", leaf}, {"node", node}};
}

Json RandomSchema::Any(int depth) {
  if (depth >= 3) return Scalar();
  switch (Below(9)) {
    case 0:
    case 1:
      return Scalar();
    case 2:
    case 3:
      return ArraySchema(depth + 1);
    case 4:
      return Combination(depth + 1);
    case 5:
      return {{"$ref", Chance(50) ? "#/$defs/leaf" : "#/$defs/node"}};
    default:
      return ObjectSchema(depth + 1);
  }
}

Json RandomSchema::Scalar() {
  switch (Below(9)) {
    case 0:
      return {{"type", "boolean"}};
    case 1:
      return {{"type", "null"}};
    case 2:
      return {{"const", Chance(50) ? Json("exactly \"this\"") : Json(static_cast<int>(Below(100)))}};
    case 3:
      return {{"enum", {"red", "green", "dark green", 7, nullptr, Json::array({1, "x"})}}};
    case 4:
      return NumberSchema(true);
    case 5:
      return NumberSchema(false);
    case 6:
      return {{"type", {"string", "null"}}};
    default:
      return StringSchema();
  }
}

Json RandomSchema::StringSchema() {
  Json schema = {{"type", "string"}};
  switch (Below(5)) {
    case 0:
      schema["pattern"] = Patterns()[Below(Patterns().size())].text;
      break;
    case 1:
      schema["format"] = Formats()[Below(Formats().size())].text;
      break;
    case 2:
      schema["minLength"] = Below(4);
      if (Chance(70)) schema["maxLength"] = 4 + Below(20);
      break;
    case 3:
      schema["maxLength"] = Below(5);
      break;
    default:
      break;
  }
  return schema;
}

Json RandomSchema::NumberSchema(bool integer) {
  Json schema = {{"type", integer ? "integer" : "number"}};
  const auto low = static_cast<int64_t>(Below(2000)) - 1000;
  if (Chance(50)) {
    if (integer) schema[Chance(50) ? "minimum" : "exclusiveMinimum"] = low;
    if (!integer) schema["minimum"] = static_cast<double>(low) / 8;
  }
  if (Chance(50)) {
    const auto high = low + 5 + static_cast<int64_t>(Below(3000));
    if (integer) schema["maximum"] = high;
    if (!integer) schema[Chance(50) ? "maximum" : "exclusiveMaximum"] = static_cast<double>(high) / 8;
  }
  if (integer && Chance(20)) schema["multipleOf"] = 1 + Below(4);
  return schema;
}

Json RandomSchema::ArraySchema(int depth) {
  Json schema = {{"type", "array"}};
  if (Chance(25)) {
    schema["prefixItems"] = Json::array({Any(depth), Any(depth)});
    schema["items"] = Chance(50) ? Json(false) : Any(depth);
    if (Chance(50)) schema["minItems"] = Below(3);
    return schema;
  }
  if (Chance(90)) schema["items"] = Any(depth);
  if (Chance(40)) schema["minItems"] = Below(3);
  if (Chance(40)) schema["maxItems"] = 2 + Below(3);
  return schema;
}

Json RandomSchema::ObjectSchema(int depth) {
  Json schema = {{"type", "object"}};
  if (Chance(15)) {
    schema["additionalProperties"] = Any(depth);
    return schema;
  }
  Json properties = Json::object(), required = Json::array();
  for (size_t i = Below(6); i > 0; --i) {
    const std::string key = Json::parse(std::string("\"") + kKeys[Below(std::size(kKeys))] + "\"");
    if (properties.contains(key)) continue;
    properties[key] = Any(depth);
    if (Chance(50)) required.push_back(key);
  }
  schema["properties"] = properties;
  if (!required.empty()) schema["required"] = required;
  if (Chance(40))
    schema["additionalProperties"] = Chance(50) ? Json(false) : Chance(50) ? Json(true) : Any(depth);
  if (Chance(15)) schema["patternProperties"] = {{"^p_[0-9]+$", Any(depth)}};
  if (properties.size() > required.size() && Chance(20)) schema["minProperties"] = 1;
  return schema;
}

Json RandomSchema::Combination(int depth) {
  switch (Below(4)) {
    case 0:
      return {{"anyOf", {Any(depth), Any(depth), Scalar()}}};
    case 1:
      return {
          {"oneOf", {{{"type", "boolean"}}, NumberSchema(Chance(50)), StringSchema(), ArraySchema(depth)}}};
    case 2: {  // a tagged union
      Json alternatives = Json::array();
      for (const char* tag : {"a", "b", "c"})
        alternatives.push_back({{"type", "object"},
                                {"properties", {{"tag", {{"const", tag}}}, {"body", Any(depth)}}},
                                {"required", {"tag", "body"}},
                                {"additionalProperties", false}});
      return {{"oneOf", alternatives}};
    }
    default:
      return {{"allOf",
               {{{"type", "object"}, {"properties", {{"first", Any(depth)}}}, {"required", {"first"}}},
                {{"type", "object"}, {"properties", {{"second", Any(depth)}}}}}}};
  }
}

std::string RandomSchema::Document() {
  names_ = 0;
  return Write(root_, 0);
}

std::string RandomSchema::Write(const Json& schema, int depth) {
  if (schema.is_boolean()) return WriteAnything(depth);
  if (schema.contains("$ref"))
    return Write(root_.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), depth);
  if (schema.contains("const")) return WriteExactly(schema["const"]);
  if (schema.contains("enum")) return WriteExactly(schema["enum"][Below(schema["enum"].size())]);
  for (const char* keyword : {"anyOf", "oneOf"})
    if (schema.contains(keyword)) return Write(schema[keyword][Below(schema[keyword].size())], depth);
  if (schema.contains("allOf")) {  // two objects, one after the other
    Json both = schema["allOf"][0];
    both["properties"].update(schema["allOf"][1]["properties"]);
    return WriteObject(both, depth);
  }
  std::string type = "object";
  if (schema.contains("type"))
    type = schema["type"].is_string() ? schema["type"].get<std::string>()
                                      : schema["type"][Below(schema["type"].size())].get<std::string>();
  if (type == "boolean") return Chance(50) ? "true" : "false";
  if (type == "null") return "null";
  if (type == "string") return WriteString(schema);
  if (type == "array") return WriteArray(schema, depth);
  if (type == "object") return WriteObject(schema, depth);
  return WriteNumber(schema);
}

std::string RandomSchema::WriteExactly(const Json& value) {
  if (!value.is_array()) return value.dump();
  std::string text = "[";
  for (size_t i = 0; i < value.size(); ++i) text += (i == 0 ? "" : Separator(",")) + WriteExactly(value[i]);
  return text + "]";
}

std::string RandomSchema::WriteString(const Json& schema) {
  for (const auto& [keyword, list] : {std::pair{"pattern", &Patterns()}, std::pair{"format", &Formats()}}) {
    if (!schema.contains(keyword)) continue;
    const auto known = std::find_if(list->begin(), list->end(), [&, k = keyword](const Sampled& s) {
      return s.text == schema[k].get<std::string>();
    });
    return std::string("\"") + known->samples[Below(known->samples.size())] + "\"";
  }
  return FreeString(schema.value("minLength", size_t{0}), schema.value("maxLength", size_t{12}));
}

std::string RandomSchema::FreeString(size_t min, size_t max) {
  static const char* const kCharacters[] = {
      "a",   "B", " ", "é", "日", "😀", "\\n",  "\\\"",   "\\\\", "\\/", "/", "\\u00e9", "\\uD83D\\uDE00",
      "\\t", "'", "{", "]", ",",  ":", "\x7f", "\\u0000"};
  std::string text = "\"";
  for (size_t i = min + Below(max - min + 1); i > 0; --i) text += kCharacters[Below(std::size(kCharacters))];
  return text + "\"";
}

std::string RandomSchema::WriteNumber(const Json& schema) {
  const bool integer = schema["type"] == "integer";
  const bool bounded = schema.contains("minimum") || schema.contains("maximum") ||
                       schema.contains("exclusiveMinimum") || schema.contains("exclusiveMaximum") ||
                       schema.contains("multipleOf");
  if (!bounded) {
    static const char* const kIntegers[] = {"0", "-1", "42", "1234567890123"};
    static const char* const kNumbers[] = {"0.5", "-0.0", "1e5", "-2.5E-10", "3", "6.02e+23"};
    return integer ? kIntegers[Below(std::size(kIntegers))] : kNumbers[Below(std::size(kNumbers))];
  }
  double low = -5000, high = 5000;
  if (schema.contains("minimum")) low = schema["minimum"].get<double>();
  if (schema.contains("exclusiveMinimum")) low = schema["exclusiveMinimum"].get<double>() + 1;
  if (schema.contains("maximum")) high = schema["maximum"].get<double>();
  if (schema.contains("exclusiveMaximum")) high = schema["exclusiveMaximum"].get<double>() - 0.125;
  if (!integer) {
    const auto steps = static_cast<size_t>((high - low) * 8) + 1;
    return Json(low + static_cast<double>(Below(steps)) / 8).dump();
  }
  const int64_t multiple = schema.value("multipleOf", int64_t{1});
  const auto first = static_cast<int64_t>(std::ceil(low / static_cast<double>(multiple)));
  const auto last = static_cast<int64_t>(std::floor(high / static_cast<double>(multiple)));
  return std::to_string(multiple *
                        (first + static_cast<int64_t>(Below(static_cast<size_t>(last - first + 1)))));
}

std::string RandomSchema::WriteArray(const Json& schema, int depth) {
  const size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
  const size_t min = schema.value("minItems", size_t{0});
  size_t max = depth > 8 ? min : std::max<size_t>(min, 3);
  if (schema.contains("maxItems")) max = std::min(max, schema["maxItems"].get<size_t>());
  if (schema.contains("items") && schema["items"] == Json(false)) max = std::min(max, prefix);
  std::string text = "[";
  for (size_t i = 0, count = min + Below(max - min + 1); i < count; ++i) {
    if (i > 0) text += Separator(",");
    text += i < prefix                 ? Write(schema["prefixItems"][i], depth + 1)
            : schema.contains("items") ? Write(schema["items"], depth + 1)
                                       : WriteAnything(depth + 1);
  }
  return text + "]";
}

std::string RandomSchema::WriteObject(const Json& schema, int depth) {
  std::vector<std::string> members;
  if (schema.contains("properties")) {
    for (const auto& [key, value] : schema["properties"].items()) {
      const Json required = schema.value("required", Json::array());
      const bool needed = std::count(required.begin(), required.end(), Json(key)) != 0;
      // The first optional member satisfies minProperties.
      const bool helps = schema.contains("minProperties") && members.empty();
      if (needed || helps || (depth < 6 && Chance(50)))
        members.push_back(Json(key).dump() + Separator(":") + Write(value, depth + 1));
    }
  }
  const auto add = [&](const std::string& key, const Json& value) {
    members.push_back("\"" + key + std::to_string(names_++) + "\"" + Separator(":") +
                      Write(value, depth + 1));
  };
  const bool more = depth < 6 && Chance(60);
  if (more && schema.contains("patternProperties")) add("p_", schema["patternProperties"]["^p_[0-9]+$"]);
  const bool open = !schema.contains("additionalProperties") && !schema.contains("properties");
  if (more && open) add("free\\\\", Json(true));
  if (more && schema.contains("additionalProperties") && schema["additionalProperties"] != Json(false))
    for (size_t i = Below(3); i > 0; --i) add("extra ", schema["additionalProperties"]);
  std::string text = "{";
  for (const std::string& member : members) text += (text.size() == 1 ? "" : Separator(",")) + member;
  return text + "}";
}

std::string RandomSchema::WriteAnything(int depth) {
  switch (Below(depth > 3 ? 4 : 6)) {
    case 0:
      return "null";
    case 1:
      return FreeString(0, 8);
    case 2:
      return Chance(50) ? "-12.5e3" : "true";
    case 3:
      return Chance(50) ? "[]" : "{}";
    case 4:
      return "[" + WriteAnything(depth + 1) + Separator(",") + WriteAnything(depth + 1) + "]";
    default:
      return "{" + FreeString(1, 5) + Separator(":") + WriteAnything(depth + 1) + "}";
  }
}

}  // namespace numoe::text
