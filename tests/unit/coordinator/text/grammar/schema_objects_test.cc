// Objects of JSON schemas: declared and other members, required ones, patterns of keys, numbers of members.
#include "coordinator/text/grammar/schema_objects.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/schema_cases.h"

namespace numoe::text {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SchemaObjectsTest, Objects) {
  CheckSchema(
      {{R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]})",
        {R"({"a":1})", R"({"a": 1, "b":"x"})"},
        {"{}", R"({"b":"x"})", R"({"b":"x","a":1})", R"({"a":1,"c":2})", R"({"a":1,"a":2})"}},
       {R"({"properties":{"a":{"type":"null"},"ab":{"type":"null"},"abc":{"type":"null"}}})",
        {"{}", R"({"a":null})", R"({"ab":null})", R"({"a":null,"abc":null})"},
        {R"({"ab":null,"a":null})", "1"}},
       {R"({"properties":{"a":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
        {"{}", R"({"a":null,"b":1,"aa":2})", R"({"x":1})"},
        {R"({"a":1})", R"({"x":null})", R"({"x":1,"a":null})"}},
       {R"({"properties":{"a":{"type":"null"}},"additionalProperties":true,"required":["a","z"]})",
        {R"({"a":null,"z":[1]})", R"({"a":null,"z":0,"y":{}})"},
        {R"({"a":null})"}},
       {R"({"properties":{"a\"b/~":{"const":1}},"required":["a\"b/~"]})", {R"({"a\"b/~":1})"}, {"{}"}},
       {R"({"type":"object","additionalProperties":{"type":"boolean"}})",
        {"{}", R"({"x":true,"y": false})"},
        {R"({"x":1})"}},
       {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"x":1})"}},
       {R"({"type":"object","patternProperties":{"^x-":{"type":"string"},"\\d$":{"type":"integer"}}})",
        {"{}", R"({"x-a":"s","b1":2})"},
        {R"({"x-a":1})", R"({"b1":"s"})", R"({"x-1":"s"})", R"({"x-1":1})", R"({"c":1})"}},
       {R"({"type":"object","patternProperties":{"^x":{"minimum":1},"y$":{"maximum":5}},"additionalProperties":{"type":"null"}})",
        {R"({"xy":3,"x":9,"y":0,"z":null})"},
        {R"({"xy":9})", R"({"xy":0})", R"({"z":1})"}},
       {R"({"properties":{"x1":{"type":"integer"}},"patternProperties":{"^x":{"minimum":5}},"additionalProperties":false})",
        {R"({"x1":5})", R"({"x1":7,"x2":5.5})"},
        {R"({"x1":4})", R"({"x2":1})", R"({"y":5})"}},
       {R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"additionalProperties":{"type":"integer"}})",
        {R"({"ab":1})"},
        {R"({"A":1})"}},
       {R"({"type":"object","propertyNames":{"enum":["p","q"]},"additionalProperties":{"type":"integer"}})",
        {R"({"p":1,"q":2})"},
        {R"({"r":1})"}},
       {R"({"properties":{"a":{},"b":{}},"minProperties":1})", {R"({"a":1})", R"({"b":1})"}, {"{}"}},
       {R"({"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"minProperties":2,"maxProperties":2})",
        {R"({"a":null,"c":null})"},
        {R"({"a":null})", R"({"a":null,"b":null,"c":null})"}},
       {R"({"type":"object","additionalProperties":{"type":"null"},"maxProperties":1})",
        {"{}", R"({"k":null})"},
        {R"({"k":null,"l":null})"}},
       {R"({"type":"object","properties":{"a":false,"b":{"type":"null"}}})",
        {"{}", R"({"b":null})"},
        {R"({"a":1})"}}});
}

TEST(SchemaObjectsTest, ErrorsNameTheUnsupportedKeyword) {
  const auto error = [](const std::string& schema) { return CompileError(Kind::kJsonSchema, schema); };
  EXPECT_THAT(
      error(R"({"type":"object","propertyNames":{"anyOf":[{"pattern":"a"}]},"additionalProperties":true})"),
      AllOf(HasSubstr("#/propertyNames"), HasSubstr("anyOf and oneOf are not supported in propertyNames")));
  std::string patterns;
  for (int i = 0; i < 40; ++i)
    patterns += (i > 0 ? "," : "") + std::string("\"^") + std::to_string(i) + "\":{}";
  EXPECT_THAT(error("{\"type\":\"object\",\"patternProperties\":{" + patterns + "}}"),
              HasSubstr("patternProperties are not supported"));
  std::string properties;
  for (int i = 0; i < 1500; ++i)
    properties += (i > 0 ? "," : "") + std::string("\"p") + std::to_string(i) + "\":{}";
  EXPECT_THAT(error("{\"type\":\"object\",\"minProperties\":700,\"properties\":{" + properties + "}}"),
              HasSubstr("minProperties or maxProperties is too large for an object"));
}

TEST(SchemaObjectsTest, MembersAreCompiledInTheirOrder) {
  const auto root = nlohmann::ordered_json::parse(
      R"({"required":["z"],"properties":{"b":{},"a":{}},"additionalProperties":{},"patternProperties":{"^b":{}}})");
  const GrammarLimits limits;
  grammar::Expressions expressions;
  grammar::SharedCompilation shared(root, limits, expressions);
  grammar::StringCompiler strings(shared);
  grammar::SchemaFacts facts;
  shared.Absorb({shared.reader().root()}, facts);
  std::vector<std::string> asked;
  const auto schema = [&](const grammar::Schemas& schemas) {
    asked.emplace_back();
    for (const grammar::SchemaAt& one : schemas) asked.back() += one.pointer + " ";
    return expressions.Literal("0");
  };
  EXPECT_FALSE(expressions.IsNever(grammar::ObjectCompiler(facts, shared, strings, schema).Expression()));
  EXPECT_TRUE(shared.ok()) << shared.status();
  const std::string of_pattern = "#/patternProperties/^b ", others = "#/additionalProperties ";
  EXPECT_THAT(asked, ::testing::ElementsAre("#/properties/b " + of_pattern, "#/properties/a ", others, others,
                                            of_pattern));
}

}  // namespace
}  // namespace numoe::text
