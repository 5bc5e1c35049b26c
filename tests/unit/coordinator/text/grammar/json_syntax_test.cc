// JSON as expressions: free texts, exact values, canonical characters.
#include "coordinator/text/grammar/json_syntax.h"

#include <functional>

#include "coordinator/text/grammar/program.h"
#include "coordinator/text/grammar/pushdown.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

TEST(JsonSyntaxTest, JsonObject) {
  const GrammarPtr grammar = Compiled(Kind::kJsonObject, "");
  for (const char* text :
       {"{}", R"({"a": 1})", R"({"a":{"b":[1,-2.5e+3,true,false,null,"x\n\u00e9\ud83d\ude00é😀"]}, "c": []})",
        R"({"":[[[[]]]]})", R"({"a": -0.0, "b": 1E5})"})
    EXPECT_TRUE(Accepts(grammar, text)) << text;
  for (const char* text :
       {"", "[]", "1", "{", R"({"a"})", R"({"a":})", R"({"a":1,})", R"({a:1})", "{ }", R"({"a":01})",
        R"({"a":1.})", R"({"a":"\x"})", R"({"a":"\ud83d"})", "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}",
        R"({"a":tru})", R"({"a":1}})", R"({"a":1e999})"})
    EXPECT_FALSE(Accepts(grammar, text)) << text;
}

TEST(JsonSyntaxTest, RandomObjectsAreAcceptedInAnyDivisionIntoTokens) {
  const GrammarPtr grammar = Compiled(Kind::kJsonObject, "");
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string text = RandomText(grammar, random);
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
    EXPECT_TRUE(Accepts(grammar, text)) << text;
    EXPECT_TRUE(AcceptsSplit(grammar, text, random)) << text;
  }
}

// Returns whether `text` matches one expression of JsonSyntax.
bool SyntaxMatches(const std::function<grammar::ExprId(grammar::JsonSyntax&)>& piece, std::string_view text) {
  grammar::Expressions expressions;
  grammar::JsonSyntax json(expressions);
  const grammar::RuleId root = expressions.AddRule("root", true);
  expressions.SetBody(root, piece(json));
  const auto program = grammar::Program::Build(expressions, root, {});
  EXPECT_TRUE(program.ok()) << program.status();
  grammar::Pushdown machine(&*program);
  grammar::Kernel here = machine.Start(), next;
  for (const char c : text) {
    machine.Step(here, static_cast<uint8_t>(c), next);
    std::swap(here, next);
  }
  return here.reached_base;
}

TEST(JsonSyntaxTest, CanonicalCharacters) {
  EXPECT_EQ(grammar::JsonCharacters("a\"\\/\b\t\n\f\r\x01\x1f é"), R"(a\"\\/\b\t\n\f\r\u0001\u001f é)");
}

TEST(JsonSyntaxTest, ExactValuesAllowASpaceAfterCommasAndColons) {
  const auto exactly = [](const char* json) {
    return [value = nlohmann::ordered_json::parse(json)](grammar::JsonSyntax& syntax) {
      return syntax.Exactly(value);
    };
  };
  for (const char* text : {R"({"k":[1,"a\n",{}],"l":[]})", R"({"k": [1, "a\n",{}], "l": []})"})
    EXPECT_TRUE(SyntaxMatches(exactly(R"({"k":[1,"a\n",{}],"l":[]})"), text)) << text;
  for (const char* text :
       {R"({"l":[],"k":[1,"a\n",{}]})", R"({"k":[1,"a\u000a",{}],"l":[]})", R"({"k" :[1,"a\n",{}],"l":[]})"})
    EXPECT_FALSE(SyntaxMatches(exactly(R"({"k":[1,"a\n",{}],"l":[]})"), text)) << text;
}

TEST(JsonSyntaxTest, StringsCountCharacters) {
  const auto two_or_three = [](grammar::JsonSyntax& syntax) { return syntax.String(2, 3); };
  for (const char* text : {"\"ab\"", "\"日本語\"", R"("\n\ud83d\ude00")"})
    EXPECT_TRUE(SyntaxMatches(two_or_three, text)) << text;
  for (const char* text : {"\"a\"", "\"abcd\"", "\"\"", "\"ab"})
    EXPECT_FALSE(SyntaxMatches(two_or_three, text)) << text;
}

TEST(JsonSyntaxTest, NumbersAreWithinTheRangeOfDoubles) {
  const auto number = [](grammar::JsonSyntax& syntax) { return syntax.Number(); };
  const auto integer = [](grammar::JsonSyntax& syntax) { return syntax.Integer(); };
  for (const std::string& text : {std::string("1e299"), std::string("-0.5E-12"), std::string(40, '1')})
    EXPECT_TRUE(SyntaxMatches(number, text)) << text;
  for (const std::string& text :
       {std::string("1e300"), std::string("01"), std::string(41, '1'), std::string("1234567890e1")})
    EXPECT_FALSE(SyntaxMatches(number, text)) << text;
  EXPECT_TRUE(SyntaxMatches(integer, "-10"));
  EXPECT_FALSE(SyntaxMatches(integer, "1.0"));
}

}  // namespace
}  // namespace numoe::text
