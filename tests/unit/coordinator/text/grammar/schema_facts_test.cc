// Facts of several schemas: keywords that narrow each other, references, and errors with their places.
#include "coordinator/text/grammar/schema_facts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/schema_cases.h"

namespace numoe::text {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SchemaFactsTest, EnumAndConst) {
  CheckSchema(
      {{R"({"enum":["a","b\"",1,2.5,null,true,{"k":[1,2]}]})",
        {"\"a\"", R"("b\"")", "1", "2.5", "null", "true", R"({"k": [1,2]})", R"({"k":[1, 2]})"},
        {"\"c\"", "\"ab\"", "3", "false", R"({"k":[1]})"}},
       {R"({"const":"日本"})", {"\"日本\""}, {"\"日\"", "\"\""}},
       {R"({"type":"string","enum":["a",1,null]})", {"\"a\""}, {"1", "null"}},
       {R"({"type":"string","enum":["a"],"nullable":true})", {"\"a\"", "null"}, {"\"b\""}},
       {R"({"enum":["a","bb","ccc"],"minLength":2,"pattern":"^[bc]"})", {"\"bb\"", "\"ccc\""}, {"\"a\""}},
       {R"({"enum":[1,5,10],"minimum":2,"exclusiveMaximum":10})", {"5"}, {"1", "10"}},
       {R"({"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]}],"const":3.0})", {"3"}, {"2", "4"}}});
}

TEST(SchemaFactsTest, References) {
  CheckSchema(
      {{R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"integer"}}})", {"1"}, {"\"a\""}},
       {R"({"type":"object","properties":{"value":{"type":"integer"},"next":{"$ref":"#"}},"required":["value"]})",
        {R"({"value":1})", R"({"value":1,"next":{"value":2,"next":{"value":3}}})"},
        {R"({"value":1,"next":{}})", R"({"value":1,"next":{"value":2})"}},
       {R"({"$ref":"#/definitions/tree","definitions":{"tree":{"anyOf":[{"type":"null"},{"type":"object","properties":
             {"l":{"$ref":"#/definitions/tree"},"r":{"$ref":"#/definitions/tree"}},"required":["l","r"]}]}}})",
        {"null", R"({"l":null,"r":{"l":null,"r":null}})"},
        {R"({"l":null})", "{}"}},
       {R"({"$ref":"#/$defs/a~1b%25","$defs":{"a/b%":{"const":1}}})", {"1"}, {"2"}},
       {R"({"$ref":"#here","$defs":{"x":{"$anchor":"here","const":1}}})", {"1"}, {"2"}},
       {R"({"$id":"http://e.x/s","$ref":"http://e.x/s#/$defs/x","$defs":{"x":{"const":1}}})", {"1"}, {"2"}},
       {R"({"$ref":"#/$defs/n","minimum":3,"$defs":{"n":{"type":"integer","maximum":5}}})",
        {"3", "5"},
        {"2", "6"}},
       {R"({"allOf":[{"$ref":"#/$defs/base"}],"properties":{"kids":{"type":"array","items":{"$ref":"#"}}},
             "$defs":{"base":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}})",
        {R"({"id":1})", R"({"id":1,"kids":[{"id":2,"kids":[]}]})"},
        {R"({"kids":[]})", R"({"id":1,"kids":[{}]})"}},
       {R"({"type":"array","items":{"$ref":"#/$defs/e"},"minItems":2,"$defs":{"e":{"enum":["a","b"]}}})",
        {R"(["a","b"])"},
        {R"(["a"])"}},
       {R"({"type":"object","properties":{"n":{"anyOf":[{"$ref":"#/$defs/x"},{"type":"null"}]}},"$defs":{"x":{"type":"object",
             "properties":{"n":{"$ref":"#"}}}}})",
        {R"({"n":{"n":{"n":null}}})", "{}"},
        {R"({"n":1})"}}});
}

TEST(SchemaFactsTest, ErrorsGiveTheirPlace) {
  const auto error = [](const char* schema) { return CompileError(Kind::kJsonSchema, schema); };
  EXPECT_THAT(error(R"({"properties":{"a/b":{"not":{}}}})"),
              AllOf(HasSubstr("#/properties/a~1b/not"), HasSubstr("not supported")));
  EXPECT_THAT(error(R"({"type":"array","items":{"type":"array","uniqueItems":true}})"),
              HasSubstr("#/items/uniqueItems"));
  EXPECT_THAT(error(R"({"properties":{"a":{"if":{}}}})"), HasSubstr("#/properties/a/if"));
  EXPECT_THAT(error(R"({"type":"strin"})"), AllOf(HasSubstr("#/type"), HasSubstr("name of a JSON type")));
  EXPECT_THAT(error(R"j({"anyOf":[{"type":"string","pattern":"(?=a)"}]})j"),
              AllOf(HasSubstr("#/anyOf/0/pattern"), HasSubstr("look-ahead")));
  EXPECT_THAT(error(R"({"properties":{"a":{"minLength":-1}}})"), HasSubstr("#/properties/a/minLength"));
  EXPECT_THAT(error(R"({"$ref":"#/$defs/none"})"), HasSubstr("is not in the schema"));
  EXPECT_THAT(error(R"({"$ref":"http://example.com/x.json"})"), HasSubstr("other documents"));
  EXPECT_THAT(error(R"({"$ref":"#"})"), HasSubstr("circle"));
  EXPECT_THAT(error(R"({"properties":[]})"), HasSubstr("#/properties: found []"));
  EXPECT_THAT(error(R"({"items":3})"), HasSubstr("#/items: found 3, expected a schema"));
  EXPECT_THAT(error("{"), HasSubstr("JSON"));
  EXPECT_THAT(error("false"), HasSubstr("no text at all matches"));
  EXPECT_THAT(error(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"),
              HasSubstr("no text at all matches"));
  EXPECT_THAT(error(R"({"type":"integer","minimum":5,"maximum":3})"), HasSubstr("no text at all matches"));
  EXPECT_THAT(error(R"({"type":"number","multipleOf":1234567})"), HasSubstr("significant digits"));
  EXPECT_THAT(error(R"({"type":"object","minProperties":3,"additionalProperties":true})"),
              HasSubstr("minProperties"));
  // additionalProperties is only about the properties of the same schema object.
  EXPECT_THAT(error(R"({"properties":{"a":{}},"allOf":[{"additionalProperties":false}],"required":["a"]})"),
              HasSubstr("no text at all matches"));
  EXPECT_THAT(
      error(R"({"minimum":123456789012345678901234})"),
      HasSubstr("expected a whole number of 64 bits, or a longer one of at most 15 significant digits"));

  EXPECT_THAT(error(R"({"enum":[]})"), HasSubstr("no text at all matches"));
  EXPECT_THAT(error(R"({"anyOf":[]})"), HasSubstr("#/anyOf"));
}

TEST(SchemaFactsTest, EachKeywordNarrows) {
  const auto root = nlohmann::ordered_json::parse(R"({"type":["string","integer"],"minLength":2,"allOf":[
      {"minLength":4,"maxLength":9},{"maxLength":7,"required":["a"]},{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"string"}}})");
  const grammar::SchemaReader reader(root);
  grammar::SchemaFacts facts;
  ASSERT_TRUE(reader.Absorb(reader.root(), facts).ok());
  EXPECT_EQ(facts.types, grammar::kStringType);
  EXPECT_EQ(facts.length_min, 4);
  EXPECT_EQ(facts.length_max, 7);
  EXPECT_THAT(facts.required, ::testing::ElementsAre("a"));
  EXPECT_TRUE(facts.used_ref);
}

TEST(SchemaFactsTest, WithoutATypeTheKeywordsImplyIt) {
  const auto effective = [](const char* schema) {
    const auto root = nlohmann::ordered_json::parse(schema);
    const grammar::SchemaReader reader(root);
    grammar::SchemaFacts facts;
    EXPECT_TRUE(reader.Absorb(reader.root(), facts).ok());
    return static_cast<int>(facts.effective_types());
  };
  EXPECT_EQ(effective("{}"), grammar::kAllTypes);
  EXPECT_EQ(effective(R"({"minLength":1})"), grammar::kStringType);
  EXPECT_EQ(effective(R"({"minLength":1,"items":{}})"), grammar::kStringType | grammar::kArrayType);
  EXPECT_EQ(effective(R"({"type":"number"})"), grammar::kIntegerType | grammar::kFractionType);
}

TEST(SchemaFactsTest, DereferencesOnlyReferencesWithoutOtherKeywords) {
  const auto root = nlohmann::ordered_json::parse(
      R"({"a":{"$ref":"#/b"},"b":{"$ref":"#/c"},"c":{"$ref":"#/d","minimum":1},"d":{},"loop":{"$ref":"#/loop"}})");
  const grammar::SchemaReader reader(root);
  const auto end = reader.Dereference({&root["a"], "#/a"});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->schema, &root["c"]);
  EXPECT_THAT(reader.Dereference({&root["loop"], "#/loop"}).status().ToString(), HasSubstr("circle"));
}

}  // namespace
}  // namespace numoe::text
