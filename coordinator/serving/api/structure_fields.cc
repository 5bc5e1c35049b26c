#include "coordinator/serving/api/structure_fields.h"

#include <fmt/format.h>

#include <utility>

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

class StructureReader {
 public:
  StructureReader(JsonFields& in, GenerationRequest& out) : in_(in), out_(out) {}

  void ReadAll() {
    if (const ordered_json* format = in_.Get("response_format"); format != nullptr)
      ReadFormat("response_format", *format);
    if (const ordered_json* outputs = in_.Get("structured_outputs"); outputs != nullptr) {  // vLLM
      if (!outputs->is_object()) return in_.Fail("structured_outputs", "an object");
      for (const auto& [key, kind] : {std::pair{"json", Kind::kJsonSchema},
                                      {"json_object", Kind::kJsonObject},
                                      {"regex", Kind::kRegex},
                                      {"choice", Kind::kChoice},
                                      {"grammar", Kind::kEbnf}}) {
        if (outputs->contains(key)) Take("structured_outputs", kind, (*outputs)[key]);
      }
    }
    for (const auto& [name, kind] :  // vLLM's former names, and SGLang's
         {std::pair{"guided_json", Kind::kJsonSchema},
          {"guided_regex", Kind::kRegex},
          {"guided_choice", Kind::kChoice},
          {"guided_grammar", Kind::kEbnf},
          {"json_schema", Kind::kJsonSchema},
          {"regex", Kind::kRegex},
          {"ebnf", Kind::kEbnf}}) {
      if (const ordered_json* value = in_.Get(name); value != nullptr) Take(name, kind, *value);
    }
  }

  void ReadFormat(const char* param, const ordered_json& format) {
    const std::string type = format.is_object() ? format.value("type", ordered_json()).dump() : "";
    if (type == "\"text\"") return;
    if (type == "\"json_object\"") return Take(param, Kind::kJsonObject, true);
    if (type != "\"json_schema\"")
      return in_.Fail(param,
                      "a type of text, json_object or json_schema, found " + JsonFields::Short(format));
    const ordered_json inner = format.value("json_schema", format);
    if (!inner.is_object() || !inner.contains("schema"))
      return in_.Fail(param,
                      "json_schema.schema beside type json_schema, found " + JsonFields::Short(format));
    Take(param, Kind::kJsonSchema, inner["schema"]);
  }

 private:
  using Kind = text::GrammarSource::Kind;

  void Take(const char* param, Kind kind, const ordered_json& value) {
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
      case Kind::kJsonSchema:  // as an object, or as its text
        if (!value.is_object() && !value.is_boolean() && !value.is_string())
          return in_.Fail(param, "a JSON Schema, found " + JsonFields::Short(value));
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
