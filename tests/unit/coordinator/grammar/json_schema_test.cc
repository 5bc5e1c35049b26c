// JSON Schema keyword by keyword: documents that must be accepted, documents that must be refused, and the
// errors for what is not supported.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/grammar/grammar_testing.h"

namespace numoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Case {
  const char* schema;
  std::vector<const char*> valid;
  std::vector<const char*> invalid;
};

void CheckSchema(const std::vector<Case>& cases) {
  std::mt19937_64 random(1);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.schema);
    const GrammarPtr grammar = Compiled(Kind::kJsonSchema, c.schema);
    ASSERT_NE(grammar, nullptr);
    for (const char* text : c.valid) EXPECT_TRUE(Accepts(grammar, text)) << text;
    for (const char* text : c.valid) EXPECT_TRUE(AcceptsSplit(grammar, text, random)) << text;
    for (const char* text : c.invalid) EXPECT_FALSE(Accepts(grammar, text)) << text;
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(Accepts(grammar, RandomText(grammar, random)));
  }
}

TEST(JsonSchemaTest, Types) {
  CheckSchema(
      {{"true", {"1", "\"a\"", "[{}]", "null"}, {"", "nul", "1 2"}},
       {R"({"type":"string"})", {R"("")", R"("a\"b\\\/\u00E9é")"}, {"1", "\"", "\"\\\""}},
       {R"({"type":"integer"})",
        {"0", "-12", "123456789012345678901234567890"},
        {"1.5", "01", "1e3", "--1", "+1"}},
       {R"({"type":"number"})", {"0", "-1.50", "1e5", "2E-12", "0.0"}, {".5", "1.", "1e", "1e+", "00"}},
       {R"({"type":"boolean"})", {"true", "false"}, {"True", "1"}},
       {R"({"type":"null"})", {"null"}, {"nul", "0"}},
       {R"({"type":["string","null"]})", {"\"x\"", "null"}, {"1"}},
       {R"({"type":"string","nullable":true})", {"\"x\"", "null"}, {"1"}},
       {R"({"type":"array"})", {"[]", "[1, \"a\",{}]"}, {"[,]", "[1,]", "[ ]", "{}"}},
       {R"({"type":"object"})", {"{}", R"({"x": 1,"y":[]})"}, {"[]", R"({"x"})"}},
       {R"({"description":"anything","default":3})", {"1", "{}"}, {"x"}}});
}

TEST(JsonSchemaTest, EnumAndConst) {
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

TEST(JsonSchemaTest, Strings) {
  CheckSchema(
      {{R"({"type":"string","minLength":2,"maxLength":3})",
        {"\"ab\"", "\"日本語\"", R"("\n\ud83d\ude00")", R"("\"\\")"},
        {"\"a\"", "\"abcd\"", "\"日本語x\"", R"("\u0041")"}},
       {R"({"minLength":1})", {"\"a\""}, {"\"\"", "1"}},
       {R"({"type":"string","pattern":"^a+$"})", {"\"a\"", "\"aaa\""}, {"\"\"", "\"ab\"", "\"ba\""}},
       {R"({"type":"string","pattern":"b"})", {"\"b\"", "\"abc\"", R"("\nb\"")"}, {"\"\"", "\"ac\""}},
       {R"j({"type":"string","pattern":"^(a|b$)"})j", {"\"ax\"", "\"b\""}, {"\"bx\"", "\"c\""}},
       {R"({"type":"string","pattern":"^\"[\\\\/]\\n$"})", {R"("\"\\\n")", R"("\"/\n")"}, {R"("\"\/\n")"}},
       {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":3})",
        {"\"ab\"", "\"abc\""},
        {"\"a\"", "\"abcd\"", "\"AB\""}},
       {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}],"type":"string"})",
        {"\"ab\"", "\"b a\""},
        {"\"a\"", "\"b\""}},
       {R"({"type":"string","format":"date"})",
        {"\"2024-02-29\"", "\"0001-01-31\""},
        {"\"2023-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"1900-02-29\"", "\"0000-01-01\""}},
       {R"({"type":"string","format":"date-time"})",
        {"\"2024-01-01T00:00:00Z\"", "\"2024-01-01T23:59:59.123+02:00\""},
        {"\"2024-01-01 00:00:00Z\"", "\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:00:00\""}},
       {R"({"type":"string","format":"time"})", {"\"10:11:12Z\""}, {"\"10:11Z\""}},
       {R"({"type":"string","format":"email"})",
        {"\"a.b+c@x-y.example.com\""},
        {"\"a\"", "\"a@b\"", "\"a..b@x.com\"", "\"a@-x.com\""}},
       {R"({"type":"string","format":"uuid"})",
        {"\"123e4567-E89b-12d3-a456-426614174000\""},
        {"\"123e4567e89b12d3a456426614174000\""}},
       {R"({"type":"string","format":"ipv4"})",
        {"\"192.168.0.255\""},
        {"\"256.1.1.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
       {R"({"type":"string","format":"ipv6"})",
        {"\"::1\"", "\"2001:db8::8a2e:370:7334\"", "\"1:2:3:4:5:6:7:8\"", "\"::\""},
        {"\":::\"", "\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\"12345::\""}},
       {R"({"type":"string","format":"uri"})",
        {"\"https://a.b/c?d=e#f\"", "\"mailto:x@y.z\"", "\"http://u@h:80/%20\""},
        {"\"no scheme\"", "\"http://a b\"", "\"//x\""}},
       {R"({"type":"string","format":"hostname"})", {"\"a.b-c.d\""}, {"\"-a\"", "\"a..b\"", "\"\""}},
       {R"({"type":"string","format":"duration"})",
        {"\"P1Y2M3DT4H5M6S\"", "\"PT5M\"", "\"P3W\""},
        {"\"P\"", "\"PT\"", "\"1D\""}},
       {R"({"type":"string","format":"int64"})", {"\"whatever\""}, {"1"}}});
}

TEST(JsonSchemaTest, Integers) {
  CheckSchema(
      {{R"({"type":"integer","minimum":0})", {"0", "7", "1000"}, {"-1", "-0", "1.0"}},
       {R"({"type":"integer","minimum":-5,"maximum":120})",
        {"-5", "-1", "0", "9", "99", "120"},
        {"-6", "121", "1000", "-10"}},
       {R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":12})", {"10", "11"}, {"9", "12"}},
       {R"({"type":"integer","minimum":1.5,"maximum":3.5})", {"2", "3"}, {"1", "4"}},
       {R"({"type":"integer","minimum":-3.5,"maximum":-1.5})", {"-3", "-2"}, {"-4", "-1", "2"}},
       {R"({"type":"integer","maximum":-100})", {"-100", "-101", "-9999"}, {"-99", "0", "100"}},
       {R"({"type":"integer","minimum":0,"exclusiveMinimum":true,"maximum":3})", {"1", "3"}, {"0"}},
       {R"({"type":"integer","minimum":98765,"maximum":1234567})",
        {"98765", "100000", "1234567", "999999"},
        {"98764", "1234568"}},
       {R"({"type":"integer","multipleOf":7,"minimum":1,"maximum":30})",
        {"7", "14", "28"},
        {"0", "8", "35", "-7"}},
       {R"({"type":"integer","multipleOf":10})", {"0", "-20", "100"}, {"5", "-1"}},
       {R"({"type":"integer","minimum":1e20})", {"100000000000000000000"}, {"99999999999999999999"}}});
}

TEST(JsonSchemaTest, NumbersWithBounds) {
  CheckSchema({{R"({"type":"number","minimum":0,"maximum":1})",
                {"0", "0.5", "1", "1.0", "1.000", "0.00"},
                {"1.01", "-0.1", "2", "1e-1"}},
               {R"({"type":"number","exclusiveMinimum":0})", {"0.001", "1", "12.5"}, {"0", "0.0", "-1"}},
               {R"({"type":"number","minimum":-1.25,"exclusiveMaximum":2.5})",
                {"-1.25", "-1.250", "-1.2", "-1", "-0.5", "0", "2.49", "2.4999", "2"},
                {"-1.26", "-1.251", "2.5", "2.50", "3", "-2"}},
               {R"({"type":"number","maximum":-0.5})",
                {"-0.5", "-0.51", "-1", "-10.25"},
                {"-0.49", "0", "1", "-0.4"}},
               {R"({"type":"number","minimum":12.34,"maximum":12.36})",
                {"12.34", "12.35", "12.359", "12.36", "12.3600"},
                {"12.33", "12.361", "12", "12.3", "13"}},
               {R"({"type":"number","multipleOf":0.05,"minimum":0,"maximum":2})",
                {"0.05", "1.1", "2", "0.10", "1.250"},
                {"0.01", "1.251", "2.05"}},
               {R"({"minimum":3})", {"3", "3.5"}, {"2", "\"x\""}},
               {R"({"type":["integer","string"],"minimum":3})", {"3", "\"\""}, {"2", "3.5"}}});
}

TEST(JsonSchemaTest, Arrays) {
  CheckSchema(
      {{R"({"type":"array","items":{"type":"integer"}})",
        {"[]", "[1]", "[1, 2,3]"},
        {"[\"a\"]", "[1 ,2]", "[1,  2]"}},
       {R"({"items":{"type":"null"},"minItems":1})", {"[null]", "[null,null]"}, {"[]"}},
       {R"({"items":{"type":"null"},"minItems":2,"maxItems":3})",
        {"[null,null]", "[null,null,null]"},
        {"[null]", "[null,null,null,null]", "[]"}},
       {R"({"items":{"type":"null"},"maxItems":1})", {"[]", "[null]"}, {"[null,null]"}},
       {R"({"maxItems":0})", {"[]"}, {"[1]"}},
       {R"({"prefixItems":[{"type":"string"},{"type":"integer"}],"items":false})",
        {"[]", "[\"a\"]", "[\"a\", 1]"},
        {"[1]", "[\"a\",1,2]"}},
       {R"({"prefixItems":[{"type":"string"}],"items":{"type":"integer"},"minItems":2,"maxItems":3})",
        {"[\"a\",1]", "[\"a\",1,2]"},
        {"[\"a\"]", "[\"a\",1,2,3]", "[\"a\",\"b\"]"}},
       {R"({"items":[{"type":"string"},{"type":"integer"}],"additionalItems":{"type":"null"},"minItems":2})",
        {"[\"a\",1]", "[\"a\",1,null,null]"},
        {"[\"a\"]", "[\"a\",1,2]"}},
       {R"({"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"boolean"}}}})",
        {"[[[true],[]],[]]"},
        {"[[true]]"}},
       {R"({"type":"array","items":false})", {"[]"}, {"[1]"}},
       {R"({"type":"array","uniqueItems":true,"maxItems":1})", {"[]", "[4]"}, {"[4,5]"}}});
}

TEST(JsonSchemaTest, Objects) {
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

TEST(JsonSchemaTest, Combinations) {
  CheckSchema(
      {{R"({"anyOf":[{"type":"string"},{"type":"integer","minimum":0}]})", {"\"a\"", "3"}, {"-1", "null"}},
       {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"]},
                       {"type":"object","properties":{"k":{"const":"b"},"y":{"type":"string"}},"required":["k"]}]})",
        {R"({"k":"a","x":1})", R"({"k":"b"})", R"({"k":"b","y":""})"},
        {R"({"k":"a"})", R"({"k":"b","x":1})"}},
       {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"null"}}}],"type":"object"})",
        {R"({"a":1})", R"({"a":1,"b":null})"},
        {"{}", R"({"b":null})"}},
       {R"({"allOf":[{"properties":{"a":{"minimum":1}}},{"properties":{"a":{"type":"integer","maximum":2}}}]})",
        {R"({"a":1})", R"({"a":2})", "{}"},
        {R"({"a":3})", R"({"a":1.5})"}},
       {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
        {R"({"a":null})", R"({"b":null})", R"({"a":null,"b":null})"},
        {"{}"}},
       {R"({"type":"integer","anyOf":[{"minimum":10},{"maximum":3}],"oneOf":[{"multipleOf":2},{"multipleOf":5}]})",
        {"2", "15", "0"},
        {"1", "4", "11"}},
       {R"({"anyOf":[{"type":"string"},{"type":"integer"}],"type":"integer"})", {"1"}, {"\"a\""}},
       {R"({"anyOf":[false,{"type":"null"}]})", {"null"}, {"1"}}});
}

TEST(JsonSchemaTest, References) {
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

TEST(JsonSchemaTest, ErrorsGiveTheirPlace) {
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
  // additionalProperties is about the properties beside it only.
  EXPECT_THAT(error(R"({"properties":{"a":{}},"allOf":[{"additionalProperties":false}],"required":["a"]})"),
              HasSubstr("no text at all matches"));
  EXPECT_THAT(error(R"({"enum":[]})"), HasSubstr("no text at all matches"));
  EXPECT_THAT(error(R"({"anyOf":[]})"), HasSubstr("#/anyOf"));
}

TEST(JsonSchemaTest, UnproductiveOptionsAreLeftOut) {
  const GrammarPtr grammar = Compiled(Kind::kJsonSchema, R"({"type":"object","properties":{
      "loop":{"$ref":"#/$defs/loop"},"a":{"type":"null"}},
      "$defs":{"loop":{"type":"object","properties":{"x":{"$ref":"#/$defs/loop"}},"required":["x"]}}})");
  EXPECT_TRUE(Accepts(grammar, R"({"a":null})"));
  EXPECT_FALSE(Accepts(grammar, R"({"loop":{"x":)"));
  GrammarState state(grammar);
  ASSERT_TRUE(state.Accept('{') && state.Accept('"'));
  EXPECT_FALSE(state.Accept('l'));
}

}  // namespace
}  // namespace numoe
