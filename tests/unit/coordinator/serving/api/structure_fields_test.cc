// Every field for structured output, and that a request may use only one.
#include "coordinator/serving/api/structure_fields.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using Kind = text::GrammarSource::Kind;

struct Read {
  explicit Read(const char* json) {
    const ordered_json root = ordered_json::parse(json);
    JsonFields in(root);
    ReadStructure(in, request);
    if (in.error()) error = in.error()->message;
  }
  GenerationRequest request;
  std::string error;
};

TEST(StructureFieldsTest, NamesOfEveryDialect) {
  for (
      const auto& [json, kind, text] : std::vector<std::tuple<const char*, Kind, const char*>>{
          {R"({"response_format": {"type": "json_object"}})", Kind::kJsonObject, ""},
          {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "null"}}}})",
           Kind::kJsonSchema, R"({"type":"null"})"},
          {R"({"response_format": {"type": "json_schema", "schema": true}})", Kind::kJsonSchema, "true"},
          {R"({"structured_outputs": {"json": "{}"}})", Kind::kJsonSchema, "{}"},
          {R"({"structured_outputs": {"json_object": true}})", Kind::kJsonObject, ""},
          {R"({"structured_outputs": {"choice": ["a", "b"]}})", Kind::kChoice, R"(["a","b"])"},
          {R"({"structured_outputs": {"regex": "a+", "json": null, "json_object": false}})", Kind::kRegex,
           "a+"},
          {R"({"structured_outputs": {"grammar": "root ::= x"}})", Kind::kEbnf, "root ::= x"},
          {R"({"structured_outputs": {"regex": "c", "disable_any_whitespace": true, "_backend": "x"}})",
           Kind::kRegex, "c"},
          {R"({"guided_json": {"a": 1}})", Kind::kJsonSchema, R"({"a":1})"},
          {R"({"guided_regex": "b"})", Kind::kRegex, "b"},
          {R"({"guided_choice": ["c"]})", Kind::kChoice, R"(["c"])"},
          {R"({"guided_grammar": "d"})", Kind::kEbnf, "d"},
          {R"({"json_schema": "{}"})", Kind::kJsonSchema, "{}"},
          {R"({"regex": "e"})", Kind::kRegex, "e"},
          {R"({"ebnf": "f"})", Kind::kEbnf, "f"},
          {R"({"response_format": {"type": "structural_tag", "format": {}}})", Kind::kStructuralTag,
           R"({"type":"structural_tag","format":{}})"},
          {R"({"structured_outputs": {"structural_tag": "{}"}})", Kind::kStructuralTag, "{}"},
          {R"({"structural_tag": {"triggers": []}})", Kind::kStructuralTag, R"({"triggers":[]})"},
          {R"({"grammar": "g", "regex": null})", Kind::kEbnf, "g"},
          {R"({"response_format": {"type": "grammar", "grammar": "h"}})", Kind::kEbnf, "h"},
          {R"({"response_format": {"type": "json_object", "schema": {"type": "object"}}})", Kind::kJsonSchema,
           R"({"type":"object"})"},
          {R"({"response_format": {"type": "json_object", "schema": {}}})", Kind::kJsonObject, ""},
          {R"({"response_format": {"type": "json_object", "schema": null}})", Kind::kJsonObject, ""}}) {
    const Read read(json);
    EXPECT_EQ(read.error, "") << json;
    ASSERT_TRUE(read.request.structure.has_value()) << json;
    EXPECT_EQ(read.request.structure->kind, kind) << json;
    EXPECT_EQ(read.request.structure->text, text) << json;
  }
}

TEST(StructureFieldsTest, WithoutTheFieldsThereIsNoStructure) {
  for (const char* json :
       {"{}", R"({"response_format": {"type": "text"}})", R"({"response_format": null, "regex": null})",
        R"({"structured_outputs": {"json_object": false}})", R"({"structured_outputs": null})",
        R"({"grammar": ""})"}) {
    const Read read(json);
    EXPECT_EQ(read.error, "") << json;
    EXPECT_FALSE(read.request.structure.has_value()) << json;
  }
}

TEST(StructureFieldsTest, ARequestHasOneKind) {
  const Read read(R"({"response_format": {"type": "json_object"}, "regex": "a"})");
  EXPECT_EQ(read.error,
            "'regex': expected one kind of structured output in a request, found response_format as well");
  EXPECT_THAT(Read(R"({"structured_outputs": {"json": {}, "regex": "a"}})").error,
              ::testing::HasSubstr("found structured_outputs.json as well"));
}

TEST(StructureFieldsTest, ErrorsOfValuesSayWhatWasFound) {
  for (const auto& [json, expected] : std::vector<std::pair<const char*, const char*>>{
           {R"({"response_format": "json"})",
            "'response_format': expected an object with a type, found \"json\""},
           {R"({"response_format": {"type": 5}})",
            "'response_format.type': expected \"text\", \"json_object\", \"json_schema\", "
            "\"structural_tag\" or \"grammar\", found 5"},
           {R"({"response_format": {"type": "json_schema"}})",
            "'response_format.json_schema': expected an object with name and schema, found null"},
           {R"({"response_format": {"type": "json_schema", "schema": {}, "name": "a.b"}})",
            "'response_format.name': expected 1 to 64 letters, digits, underscores and dashes, found "
            "\"a.b\""},
           {R"({"structured_outputs": []})", "'structured_outputs': expected an object, found []"},
           {R"({"structured_outputs": {}})",
            "'structured_outputs': expected one of json, json_object, regex, choice, grammar and "
            "structural_tag, found {}"},
           {R"({"structured_outputs": {"regex": null, "disable_fallback": true}})",
            "'structured_outputs': expected one of json"},
           {R"({"structured_outputs": {"regexp": "a"}})",
            "'structured_outputs.regexp': expected one of json, json_object, regex, choice, grammar and "
            "structural_tag, found another name"},
           {R"({"structured_outputs": {"regex": "a", "jsn": {}}})", "'structured_outputs.jsn'"},
           {R"({"guided_json": 5})", "'guided_json': expected a JSON Schema, found 5"},
           {R"({"guided_choice": "a"})", "'guided_choice': expected a list of strings, found \"a\""},
           {R"({"response_format": {"type": "json_object", "schema": 5}})",
            "'response_format.schema': expected a JSON Schema, found 5"},
           {R"({"response_format": {"type": "grammar"}})",
            "'response_format.grammar': expected a string, found false"},
           {R"({"grammar": {"type": "regex"}})", "'grammar': expected a string, found {"},
           {R"({"structured_outputs": {"json": {}, "whitespace_pattern": " ?"}})",
            "'structured_outputs.whitespace_pattern': expected no value, found \" ?\""},
           {R"({"structural_tag": 5})", "'structural_tag': expected a structural tag, found 5"},
           {R"({"ebnf": ["a"]})", "'ebnf': expected a string, found [\"a\"]"}})
    EXPECT_THAT(Read(json).error, ::testing::HasSubstr(expected)) << json;
}

}  // namespace
}  // namespace numoe::serving
