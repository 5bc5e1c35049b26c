#include "coordinator/serving/api/structure_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

// Options of vLLM's structured_outputs that select among its backends, or that this server fulfils in any
// case: it allows at most one space after a comma or colon.
constexpr std::string_view kOutputOptions[] = {
    "disable_fallback", "disable_any_whitespace", "disable_additional_properties", "whitespace_pattern",
    "_backend",         "_backend_was_auto"};
constexpr const char* kRefusedOptions[] = {"disable_additional_properties", "whitespace_pattern"};
constexpr size_t kParamBytesMax = 100;  // of a client's field name in an error

class StructureReader {
 public:
  StructureReader(JsonFields& in, GenerationRequest& out) : in_(in), out_(out) {}

  void ReadAll() {
    if (const ordered_json* format = in_.Get("response_format"); format != nullptr)
      ReadFormat("response_format", *format);
    if (const ordered_json* outputs = in_.Get("structured_outputs"); outputs != nullptr)  // vLLM
      ReadOutputs(*outputs);
    for (const auto& [name, kind] :  // vLLM's former names, and those of SGLang and llama.cpp
         {std::pair{"guided_json", Kind::kJsonSchema},
          {"guided_regex", Kind::kRegex},
          {"guided_choice", Kind::kChoice},
          {"guided_grammar", Kind::kEbnf},
          {"json_schema", Kind::kJsonSchema},
          {"regex", Kind::kRegex},
          {"ebnf", Kind::kEbnf},
          {"structural_tag", Kind::kStructuralTag}}) {
      if (const ordered_json* value = in_.Get(name); value != nullptr) Take(name, kind, *value);
    }
    // llama.cpp's clients send an empty grammar if they want none.
    if (const ordered_json* grammar = in_.Get("grammar"); grammar != nullptr && *grammar != "")
      Take("grammar", Kind::kEbnf, *grammar);
  }

  void ReadFormat(const std::string& param, const ordered_json& format) {
    if (!format.is_object())
      return in_.Fail(param, "an object with a type, found " + JsonFields::Short(format));
    const ordered_json type = format.value("type", ordered_json());
    if (type == "text") return;
    if (type == "json_object") return ReadObjectFormat(param, format);
    if (type == "grammar")  // Fireworks
      return Take(param + ".grammar", Kind::kEbnf, format.value("grammar", ordered_json(false)));
    if (type == "json_schema") return ReadSchemaFormat(param, format);
    if (type == "structural_tag") return Take(param, Kind::kStructuralTag, format);
    in_.Fail(param + ".type",
             "\"text\", \"json_object\", \"json_schema\", \"structural_tag\" or \"grammar\", found " +
                 JsonFields::Short(type));
  }

 private:
  using Kind = text::GrammarSource::Kind;

  // vLLM accepts exactly one kind, and no other names.
  void ReadOutputs(const ordered_json& outputs) {
    static constexpr std::pair<const char*, Kind> kKinds[] = {
        {"json", Kind::kJsonSchema}, {"json_object", Kind::kJsonObject},
        {"regex", Kind::kRegex},     {"choice", Kind::kChoice},
        {"grammar", Kind::kEbnf},    {"structural_tag", Kind::kStructuralTag}};
    constexpr char kExpected[] = "one of json, json_object, regex, choice, grammar and structural_tag";
    if (!outputs.is_object())
      return in_.Fail("structured_outputs", "an object, found " + JsonFields::Short(outputs));
    RefuseOptions(outputs);
    bool any = false;
    for (const auto& [key, value] : outputs.items()) {
      const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                     [&key = key](const auto& known) { return key == known.first; });
      const std::string param = "structured_outputs." + key;
      if (kind != std::end(kKinds)) {
        any = any || !value.is_null();
        Take(param, kind->second, value);
      } else if (std::find(std::begin(kOutputOptions), std::end(kOutputOptions), key) ==
                 std::end(kOutputOptions)) {
        in_.Fail(param.substr(0, kParamBytesMax), std::string(kExpected) + ", found another name");
      }
    }
    if (!any)
      in_.Fail("structured_outputs", std::string(kExpected) + ", found " + JsonFields::Short(outputs));
  }

  // Refuses options of vLLM's backends that would change the answer.
  void RefuseOptions(const ordered_json& outputs) {
    for (const char* name : kRefusedOptions) {
      const ordered_json value = outputs.value(name, ordered_json());
      if (!value.is_null() && value != false)
        in_.Fail(fmt::format("structured_outputs.{}", name), "no value, found " + JsonFields::Short(value));
    }
  }

  // Together, Fireworks and llama.cpp have a schema next to the type json_object.
  void ReadObjectFormat(const std::string& param, const ordered_json& format) {
    const ordered_json schema = format.value("schema", ordered_json());
    const bool any = schema.is_null() || (schema.is_object() && schema.empty());
    Take(any ? param : param + ".schema", any ? Kind::kJsonObject : Kind::kJsonSchema,
         any ? ordered_json(true) : schema);
  }

  // OpenAI's chat API has the schema and its name in `json_schema`, its responses API next to the type.
  void ReadSchemaFormat(const std::string& param, const ordered_json& format) {
    const bool within = format.contains("json_schema") || !format.contains("schema");
    const std::string where = within ? param + ".json_schema" : param;
    const ordered_json parts = within ? format.value("json_schema", ordered_json()) : format;
    if (!parts.is_object())
      return in_.Fail(where, "an object with name and schema, found " + JsonFields::Short(parts));
    const ordered_json name = parts.value("name", ordered_json());
    if ((within || parts.contains("name")) && !IsSchemaName(name)) {
      return in_.Fail(where + ".name",
                      "1 to 64 letters, digits, underscores and dashes, found " + JsonFields::Short(name));
    }
    const ordered_json strict = parts.value("strict", ordered_json());
    if (!strict.is_boolean() && !strict.is_null())
      return in_.Fail(where + ".strict", "true or false, found " + JsonFields::Short(strict));
    const ordered_json schema = parts.value("schema", ordered_json());
    if (!schema.is_object() && !schema.is_boolean())
      return in_.Fail(where + ".schema", "a JSON Schema, found " + JsonFields::Short(schema));
    Take(where + ".schema", Kind::kJsonSchema, schema);
  }

  static bool IsSchemaName(const ordered_json& name) {
    constexpr size_t kNameCharactersMax = 64;
    if (!name.is_string()) return false;
    const std::string& text = name.get_ref<const std::string&>();
    return !text.empty() && text.size() <= kNameCharactersMax &&
           std::all_of(text.begin(), text.end(), [](char c) {
             return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
           });
  }

  void Take(const std::string& param, Kind kind, const ordered_json& value) {
    if (value.is_null() || (kind == Kind::kJsonObject && value == false)) return;
    if (out_.structure) {
      return in_.Fail(param, fmt::format("one kind of structured output in a request, found {} as well",
                                         out_.structure_param));
    }
    out_.structure_param = param;
    switch (kind) {
      case Kind::kJsonObject:
        out_.structure = text::GrammarSource{kind, ""};
        break;
      case Kind::kJsonSchema:  // an object, or its text
        if (!value.is_object() && !value.is_boolean() && !value.is_string())
          return in_.Fail(param, "a JSON Schema, found " + JsonFields::Short(value));
        out_.structure =
            text::GrammarSource{kind, value.is_string() ? value.get<std::string>() : value.dump()};
        break;
      case Kind::kStructuralTag:  // an object, or its text
        if (!value.is_object() && !value.is_string())
          return in_.Fail(param, "a structural tag, found " + JsonFields::Short(value));
        out_.structure =
            text::GrammarSource{kind, value.is_string() ? value.get<std::string>() : value.dump()};
        break;
      case Kind::kChoice:
        if (!value.is_array()) return in_.Fail(param, "a list of strings, found " + JsonFields::Short(value));
        out_.structure = text::GrammarSource{kind, value.dump()};
        break;
      case Kind::kRegex:
      case Kind::kEbnf:
        if (!value.is_string()) return in_.Fail(param, "a string, found " + JsonFields::Short(value));
        out_.structure = text::GrammarSource{kind, value.get<std::string>()};
        break;
    }
  }

  JsonFields& in_;
  GenerationRequest& out_;
};

}  // namespace

void ReadStructure(JsonFields& in, GenerationRequest& out) { StructureReader(in, out).ReadAll(); }

void ReadFormat(JsonFields& in, const char* param, const ordered_json& format, GenerationRequest& out) {
  StructureReader(in, out).ReadFormat(param, format);
}

}  // namespace numoe::serving
