#include "coordinator/text/grammar/schema_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/base/status.h"
#include "common/json/json_reader.h"

namespace numoe::text::grammar {
namespace {

using nlohmann::ordered_json;

constexpr int kReferencesMax =
    100;                           // references within each other while a schema is read; more form a circle
constexpr int kPartsMax = 10'000;  // schemas that are combined into one
constexpr size_t kDoubleDigits =
    std::numeric_limits<double>::digits10;  // digits of any number that a double keeps

const char* const kUnsupported[] = {
    "not",         "if",          "contains",         "dependentRequired", "dependentSchemas", "dependencies",
    "minContains", "maxContains", "unevaluatedItems", "$dynamicRef",       "$recursiveRef"};

std::string EscapePointer(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~' || c == '/') {
      out += c == '~' ? "~0" : "~1";
    } else {
      out += c;
    }
  }
  return out;
}

absl::Status Wrong(const std::string& pointer, const std::string& expected, const ordered_json& found) {
  return absl::InvalidArgumentError(fmt::format("{}: found {}, expected {}", Printable(pointer),
                                                Brief(nlohmann::json::parse(found.dump())), expected));
}

absl::StatusOr<uint8_t> TypeNamed(const ordered_json& name, const std::string& pointer) {
  static const std::map<std::string, uint8_t>* const kNames = new std::map<std::string, uint8_t>{
      {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType},
      {"string", kStringType}, {"array", kArrayType},     {"number", kIntegerType | kFractionType},
      {"object", kObjectType}};
  const auto found = name.is_string() ? kNames->find(name.get<std::string>()) : kNames->end();
  if (found == kNames->end()) return Wrong(pointer, "the name of a JSON type", name);
  return found->second;
}

}  // namespace

// Reads a schema with all the schemas that it is combined from.
class SchemaReader::Absorber {
 public:
  Absorber(const SchemaReader& reader, SchemaFacts& facts) : reader_(reader), facts_(facts) {}

  absl::Status Absorb(const SchemaAt& at) {
    ++depth_;
    const absl::Status status = AbsorbOne(at);
    --depth_;
    return status;
  }

 private:
  absl::Status AbsorbOne(const SchemaAt& at) {
    if (depth_ > kReferencesMax)
      return absl::InvalidArgumentError(
          fmt::format("{}: the references form a circle; remove one of them", Printable(at.pointer)));
    if (++parts_ > kPartsMax)
      return absl::ResourceExhaustedError(
          fmt::format("{}: the schema is combined from more than {} schemas; use fewer allOf and $ref",
                      Printable(at.pointer), kPartsMax));
    if (facts_.pointer.empty()) facts_.pointer = at.pointer;
    const ordered_json& schema = *at.schema;
    if (schema.is_boolean()) {
      facts_.never |= !schema.get<bool>();
      return absl::OkStatus();
    }
    if (!schema.is_object()) return Wrong(at.pointer, "a schema: an object, true or false", schema);
    for (const char* keyword : kUnsupported)
      if (schema.contains(keyword)) return Unsupported(at, keyword);
    RETURN_IF_ERROR(AbsorbTypes(at));
    RETURN_IF_ERROR(AbsorbValues(at));
    RETURN_IF_ERROR(AbsorbStrings(at));
    RETURN_IF_ERROR(AbsorbNumbers(at));
    RETURN_IF_ERROR(AbsorbArrays(at));
    // Members come in the order of the text; those of a base class come before or after the class's own
    // members.
    const bool base_first = FirstOf(schema, {"allOf", "$ref"}) < FirstOf(schema, {"properties"});
    if (base_first) RETURN_IF_ERROR(AbsorbCombinations(at));
    RETURN_IF_ERROR(AbsorbObjects(at));
    return base_first ? absl::OkStatus() : AbsorbCombinations(at);
  }

  static absl::Status Unsupported(const SchemaAt& at, const std::string& keyword) {
    return absl::UnimplementedError(fmt::format("{}/{}: \"{}\" is not supported in structured output",
                                                Printable(at.pointer), keyword, keyword));
  }
  static std::ptrdiff_t FirstOf(const ordered_json& schema, const std::set<std::string>& keywords) {
    const auto found = std::find_if(schema.items().begin(), schema.items().end(),
                                    [&](const auto& item) { return keywords.count(item.key()) != 0; });
    return std::distance(schema.items().begin(), found);
  }
  static SchemaAt Below(const SchemaAt& at, std::string_view key) {
    return {&at.schema->at(std::string(key)), at.pointer + "/" + EscapePointer(key)};
  }
  static const ordered_json* Find(const SchemaAt& at, const char* key) {
    const auto found = at.schema->find(key);
    return found == at.schema->end() ? nullptr : &*found;
  }

  absl::Status AbsorbTypes(const SchemaAt& at) {
    const ordered_json* type = Find(at, "type");
    if (type == nullptr) return absl::OkStatus();
    const std::string pointer = at.pointer + "/type";
    uint8_t types = 0;
    if (type->is_array()) {
      for (const ordered_json& name : *type) {
        ASSIGN_OR_RETURN(const uint8_t one, TypeNamed(name, pointer));
        types |= one;
      }
    } else {
      ASSIGN_OR_RETURN(types, TypeNamed(*type, pointer));
    }
    if (IsNullable(at)) types |= kNullType;
    facts_.types &= types;
    facts_.types_given = true;
    return absl::OkStatus();
  }

  static bool IsNullable(const SchemaAt& at) {
    const ordered_json* nullable = Find(at, "nullable");
    return nullable != nullptr && nullable->is_boolean() && nullable->get<bool>();
  }

  absl::Status AbsorbValues(const SchemaAt& at) {
    std::vector<ordered_json> values;
    if (const ordered_json* list = Find(at, "enum")) {
      if (!list->is_array()) return Wrong(at.pointer + "/enum", "an array of values", *list);
      values.assign(list->begin(), list->end());
      if (IsNullable(at)) values.push_back(nullptr);
      Narrow(std::move(values));
    }
    if (const ordered_json* value = Find(at, "const")) Narrow({*value});
    return absl::OkStatus();
  }

  void Narrow(std::vector<ordered_json> values) {
    if (facts_.values.has_value()) {
      std::set<nlohmann::json> allowed;  // json ignores the order of keys when it compares objects
      for (const ordered_json& value : *facts_.values) allowed.insert(nlohmann::json::parse(value.dump()));
      std::erase_if(values, [&allowed](const ordered_json& value) {
        return allowed.count(nlohmann::json::parse(value.dump())) == 0;
      });
    }
    facts_.values = std::move(values);
  }

  absl::Status ReadCount(const SchemaAt& at, const char* keyword, uint8_t type, bool minimum,
                         int64_t& count) {
    const ordered_json* value = Find(at, keyword);
    if (value == nullptr) return absl::OkStatus();
    // 2.0 is an integer in JSON Schema.
    const double number = value->is_number() ? value->get<double>() : -1;
    if (number < 0 || number > 1e15 || number != static_cast<double>(static_cast<int64_t>(number)))
      return Wrong(at.pointer + "/" + keyword, "a whole number of 0 or more", *value);
    facts_.implied_types |= type;
    const auto read = static_cast<int64_t>(number);
    count = minimum ? std::max(count, read) : std::min(count, read);
    return absl::OkStatus();
  }

  absl::Status AbsorbStrings(const SchemaAt& at) {
    RETURN_IF_ERROR(ReadCount(at, "minLength", kStringType, true, facts_.length_min));
    RETURN_IF_ERROR(ReadCount(at, "maxLength", kStringType, false, facts_.length_max));
    for (const char* keyword : {"pattern", "format"}) {
      const ordered_json* text = Find(at, keyword);
      if (text == nullptr) continue;
      if (!text->is_string()) return Wrong(at.pointer + "/" + keyword, "a string", *text);
      const bool is_pattern = keyword[0] == 'p';
      if (is_pattern) facts_.implied_types |= kStringType;
      (is_pattern ? facts_.patterns : facts_.formats)
          .push_back({text->get<std::string>(), at.pointer + "/" + keyword});
    }
    return absl::OkStatus();
  }

  // A bound that is larger in magnitude than all generated numbers, which have 15 digits, may be rounded if
  // its sign is `outer`; 0 means that no value may be rounded.
  absl::Status ReadDecimal(const SchemaAt& at, const char* keyword, int outer,
                           std::optional<Decimal>& decimal) {
    const ordered_json* value = Find(at, keyword);
    if (value == nullptr || value->is_boolean()) return absl::OkStatus();
    decimal = value->is_number() ? Decimal::Parse(value->dump()) : std::nullopt;
    if (!decimal.has_value()) return Wrong(at.pointer + "/" + keyword, "a number", *value);
    // The JSON reader keeps whole numbers of 64 bits exactly and rounds longer ones to doubles.
    const bool rounded =
        value->is_number_float() && decimal->fraction.empty() && decimal->SignificantDigits() > kDoubleDigits;
    if (rounded && outer != (decimal->negative ? -1 : 1))
      return Wrong(at.pointer + "/" + keyword,
                   fmt::format("a whole number of 64 bits, or a longer one of at most {} significant digits",
                               kDoubleDigits),
                   *value);
    facts_.implied_types |= kIntegerType | kFractionType;
    return absl::OkStatus();
  }

  absl::Status AbsorbNumbers(const SchemaAt& at) {
    const auto is_true = [&at](const char* keyword) {  // draft 4's exclusive bounds
      const ordered_json* value = Find(at, keyword);
      return value != nullptr && value->is_boolean() && value->get<bool>();
    };
    std::optional<Decimal> low, above, high, below, multiple;
    RETURN_IF_ERROR(ReadDecimal(at, "minimum", -1, low));
    RETURN_IF_ERROR(ReadDecimal(at, "exclusiveMinimum", -1, above));
    RETURN_IF_ERROR(ReadDecimal(at, "maximum", 1, high));
    RETURN_IF_ERROR(ReadDecimal(at, "exclusiveMaximum", 1, below));
    RETURN_IF_ERROR(ReadDecimal(at, "multipleOf", 0, multiple));
    if (low.has_value()) facts_.bounds.AtLeast(*low, is_true("exclusiveMinimum"));
    if (above.has_value()) facts_.bounds.AtLeast(*above, true);
    if (high.has_value()) facts_.bounds.AtMost(*high, is_true("exclusiveMaximum"));
    if (below.has_value()) facts_.bounds.AtMost(*below, true);
    if (!multiple.has_value()) return absl::OkStatus();
    if (multiple->negative || multiple->IsZero())
      return Wrong(at.pointer + "/multipleOf", "a number above 0", *Find(at, "multipleOf"));
    facts_.bounds.multiples_of.push_back(*multiple);
    return absl::OkStatus();
  }

  absl::Status AbsorbArrays(const SchemaAt& at) {
    RETURN_IF_ERROR(ReadCount(at, "minItems", kArrayType, true, facts_.items_min));
    RETURN_IF_ERROR(ReadCount(at, "maxItems", kArrayType, false, facts_.items_max));
    const ordered_json* unique = Find(at, "uniqueItems");
    if (unique != nullptr && unique->is_boolean() && unique->get<bool>())
      facts_.unique_items = at.pointer + "/uniqueItems";
    SchemaFacts::ArrayPart part;
    const ordered_json* items = Find(at, "items");
    const bool items_is_list = items != nullptr && items->is_array();  // draft 7
    const char* list = items_is_list ? "items" : "prefixItems";
    const char* rest = items_is_list ? "additionalItems" : "items";
    if (const ordered_json* prefix = Find(at, list)) {
      if (!prefix->is_array()) return Wrong(at.pointer + "/" + list, "an array of schemas", *prefix);
      for (size_t i = 0; i < prefix->size(); ++i)
        part.prefix.push_back({&(*prefix)[i], fmt::format("{}/{}/{}", at.pointer, list, i)});
    }
    if (Find(at, rest) != nullptr) part.rest = Below(at, rest);
    if (part.prefix.empty() && !part.rest.has_value()) return absl::OkStatus();
    facts_.implied_types |= kArrayType;
    facts_.arrays.push_back(std::move(part));
    return absl::OkStatus();
  }

  absl::Status AbsorbObjects(const SchemaAt& at) {
    RETURN_IF_ERROR(ReadCount(at, "minProperties", kObjectType, true, facts_.properties_min));
    RETURN_IF_ERROR(ReadCount(at, "maxProperties", kObjectType, false, facts_.properties_max));
    SchemaFacts::ObjectPart part;
    for (const char* keyword : {"properties", "patternProperties"}) {
      const ordered_json* members = Find(at, keyword);
      if (members == nullptr) continue;
      if (!members->is_object()) return Wrong(at.pointer + "/" + keyword, "an object of schemas", *members);
      auto& list = keyword[1] == 'r' ? part.properties : part.patterns;
      for (const auto& [name, schema] : members->items())
        list.emplace_back(
            name, SchemaAt{&schema, fmt::format("{}/{}/{}", at.pointer, keyword, EscapePointer(name))});
      facts_.implied_types |= kObjectType;
    }
    if (Find(at, "additionalProperties") != nullptr) {
      part.additional = Below(at, "additionalProperties");
      facts_.implied_types |= kObjectType;
    }
    if (!part.properties.empty() || !part.patterns.empty() || part.additional.has_value())
      facts_.objects.push_back(std::move(part));
    if (Find(at, "propertyNames") != nullptr) {
      facts_.property_names.push_back(Below(at, "propertyNames"));
      facts_.implied_types |= kObjectType;
    }
    if (const ordered_json* unevaluated = Find(at, "unevaluatedProperties")) {
      if (!unevaluated->is_boolean()) return Unsupported(at, "unevaluatedProperties");
      facts_.closed |= !unevaluated->get<bool>();
    }
    return AbsorbRequired(at);
  }

  absl::Status AbsorbRequired(const SchemaAt& at) {
    const ordered_json* required = Find(at, "required");
    if (required == nullptr || required->is_boolean()) return absl::OkStatus();  // a boolean in draft 3
    if (!required->is_array()) return Wrong(at.pointer + "/required", "an array of names", *required);
    for (const ordered_json& name : *required) {
      if (!name.is_string()) return Wrong(at.pointer + "/required", "an array of names", *required);
      facts_.implied_types |= kObjectType;
      const auto text = name.get<std::string>();
      if (std::find(facts_.required.begin(), facts_.required.end(), text) == facts_.required.end())
        facts_.required.push_back(text);
    }
    return absl::OkStatus();
  }

  absl::Status AbsorbCombinations(const SchemaAt& at) {
    for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
      const ordered_json* list = Find(at, keyword);
      if (list == nullptr) continue;
      if (!list->is_array() || list->empty())
        return Wrong(at.pointer + "/" + keyword, "a list of schemas, not empty", *list);
      Schemas schemas;
      for (size_t i = 0; i < list->size(); ++i)
        schemas.push_back({&(*list)[i], fmt::format("{}/{}/{}", at.pointer, keyword, i)});
      if (keyword[1] == 'l') {
        for (const SchemaAt& schema : schemas) RETURN_IF_ERROR(Absorb(schema));
      } else {
        facts_.choices.push_back(std::move(schemas));
      }
    }
    if (Find(at, "$ref") == nullptr) return absl::OkStatus();
    facts_.used_ref = true;
    ASSIGN_OR_RETURN(const SchemaAt target, reader_.Resolve(at));
    return Absorb(target);
  }

  const SchemaReader& reader_;
  SchemaFacts& facts_;
  int depth_ = 0;
  int parts_ = 0;
};

SchemaReader::SchemaReader(const ordered_json& root) : root_(root) {
  std::vector<SchemaAt> stack = {this->root()};
  while (!stack.empty()) {
    const SchemaAt at = std::move(stack.back());
    stack.pop_back();
    if (at.schema->is_object()) {
      for (const auto& [key, value] : at.schema->items()) {
        if (key == "$anchor" && value.is_string()) anchors_.try_emplace("#" + value.get<std::string>(), at);
        if (value.is_structured()) stack.push_back({&value, at.pointer + "/" + EscapePointer(key)});
      }
    } else if (at.schema->is_array()) {
      for (size_t i = 0; i < at.schema->size(); ++i)
        if ((*at.schema)[i].is_structured())
          stack.push_back({&(*at.schema)[i], at.pointer + "/" + std::to_string(i)});
    }
  }
}

absl::Status SchemaReader::Absorb(const SchemaAt& schema, SchemaFacts& facts) const {
  return Absorber(*this, facts).Absorb(schema);
}

absl::StatusOr<SchemaAt> SchemaReader::Resolve(const SchemaAt& schema) const {
  const ordered_json& reference = schema.schema->at("$ref");
  const std::string pointer = schema.pointer + "/$ref";
  if (!reference.is_string()) return Wrong(pointer, "a reference", reference);
  auto target = reference.get<std::string>();
  if (root_.is_object() && root_.contains("$id") && root_["$id"].is_string()) {
    const auto id = root_["$id"].get<std::string>();
    if (!id.empty() && target.compare(0, id.size(), id) == 0) target.erase(0, id.size());
    if (target.empty()) target = "#";
  }
  if (target == "#") return root();
  if (const auto anchor = anchors_.find(target); anchor != anchors_.end()) return anchor->second;
  if (target.compare(0, 2, "#/") != 0) {
    return absl::UnimplementedError(fmt::format(
        "{}: found \"{}\"; references into other documents are not supported, expected #, #/... or #anchor",
        Printable(pointer), Printable(target)));
  }
  std::string decoded;
  for (size_t i = 0; i < target.size(); ++i) {
    const bool escaped = target[i] == '%' && i + 2 < target.size() && isxdigit(target[i + 1]) != 0 &&
                         isxdigit(target[i + 2]) != 0;
    decoded += escaped ? static_cast<char>(std::stoi(target.substr(i + 1, 2), nullptr, 16)) : target[i];
    if (escaped) i += 2;
  }
  const ordered_json* at = &root_;
  for (size_t begin = 2; begin <= decoded.size();) {
    const size_t end = std::min(decoded.find('/', begin), decoded.size());
    std::string key;
    for (size_t i = begin; i < end; ++i) {
      const bool escaped =
          decoded[i] == '~' && i + 1 < end && (decoded[i + 1] == '0' || decoded[i + 1] == '1');
      key += escaped ? decoded[++i] == '0' ? '~' : '/' : decoded[i];
    }
    const bool is_index = at->is_array() && !key.empty() && key.size() < 9 &&
                          key.find_first_not_of("0123456789") == std::string::npos;
    if (is_index && static_cast<size_t>(std::stoi(key)) < at->size()) {
      at = &(*at)[static_cast<size_t>(std::stoi(key))];
    } else if (at->is_object() && at->contains(key)) {
      at = &at->at(key);
    } else {
      return absl::InvalidArgumentError(
          fmt::format("{}: \"{}\" is not in the schema", Printable(pointer), Printable(target)));
    }
    begin = end + 1;
  }
  return SchemaAt{at, decoded};
}

absl::StatusOr<SchemaAt> SchemaReader::Dereference(SchemaAt schema) const {
  static const std::set<std::string>* const kAnnotations = new std::set<std::string>{
      "$ref",    "title",      "description", "default",   "examples",    "$comment", "$defs",
      "example", "deprecated", "readOnly",    "writeOnly", "definitions", "$schema"};
  for (int i = 0; i < kReferencesMax; ++i) {
    const ordered_json& at = *schema.schema;
    if (!at.is_object() || !at.contains("$ref")) return schema;
    for (const auto& [key, value] : at.items())
      if (kAnnotations->count(key) == 0) return schema;
    ASSIGN_OR_RETURN(schema, Resolve(schema));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: the references form a circle; remove one of them", Printable(schema.pointer)));
}

}  // namespace numoe::text::grammar
