// JSON Schema keyword by keyword: types, arrays, and combinations of schemas.
#include "coordinator/text/grammar/schema_compiler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/schema_cases.h"

namespace numoe::text {
namespace {

TEST(SchemaCompilerTest, Types) {
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

TEST(SchemaCompilerTest, Arrays) {
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

TEST(SchemaCompilerTest, Combinations) {
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

TEST(SchemaCompilerTest, UnproductiveOptionsAreLeftOut) {
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
}  // namespace numoe::text
