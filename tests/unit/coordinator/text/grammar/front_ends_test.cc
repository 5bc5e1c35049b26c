// Sources that are a list of texts, and the frame and the limits of all kinds of sources.
#include "coordinator/text/grammar/front_ends.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

using ::testing::HasSubstr;

TEST(FrontEndsTest, Choice) {
  const GrammarPtr grammar = Compiled(Kind::kChoice, R"(["yes", "no", "not \"sure\"", "日本"])");
  for (const char* text : {"yes", "no", "not \"sure\"", "日本"}) EXPECT_TRUE(Accepts(grammar, text)) << text;
  for (const char* text : {"", "ye", "yesno", "日"}) EXPECT_FALSE(Accepts(grammar, text)) << text;
  EXPECT_THAT(CompileError(Kind::kChoice, "[]"), HasSubstr("one or more strings"));
  EXPECT_THAT(CompileError(Kind::kChoice, "[1]"), HasSubstr("choice 0"));
}

TEST(FrontEndsTest, LimitsAreNamed) {
  EXPECT_THAT(CompileError(Kind::kRegex, std::string(2 << 20, 'a')),
              HasSubstr("has 2097152 bytes, expected at most"));
  EXPECT_THAT(CompileError(Kind::kRegex, "[ab]{1000}", {.dfa_states = 100}),
              HasSubstr("more than 100 states"));
}

TEST(FrontEndsTest, AFrameIsPartOfTheText) {
  const GrammarSource source{.kind = Kind::kJsonSchema,
                             .text = R"({"type":"object","properties":{"a":{"type":"integer"}}})",
                             .before = {"ab: ", "abc: ", ""},
                             .after = "}\n"};
  const auto grammar = CompiledGrammar::Compile(source, SmallVocabulary());
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  std::mt19937_64 random(1);
  for (const char* text : {"ab: {\"a\": 1}}\n", "abc: {}}\n", "{}}\n"}) {
    EXPECT_TRUE(Accepts(*grammar, text)) << text;
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(AcceptsSplit(*grammar, text, random)) << text;
  }
  for (const char* text : {"ab: {}", "a: {}}\n", "ab: }\n", "ab: {}}\n\n", "{}}"})
    EXPECT_FALSE(Accepts(*grammar, text)) << text;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Accepts(*grammar, RandomText(*grammar, random)));
}

TEST(FrontEndsTest, AFrameCountsAgainstTheLimit) {
  GrammarLimits limits;
  limits.source_bytes = 10;
  EXPECT_TRUE(CompiledGrammar::Compile({.kind = Kind::kRegex, .text = "abc", .after = "1234567"},
                                       SmallVocabulary(), limits)
                  .ok());
  EXPECT_FALSE(
      CompiledGrammar::Compile({.kind = Kind::kRegex, .text = "abc", .before = {"1234"}, .after = "1234"},
                               SmallVocabulary(), limits)
          .ok());
}

TEST(FrontEndsTest, EachKindBecomesARule) {
  for (const GrammarSource& source : {GrammarSource{.kind = Kind::kJsonObject},
                                      {.kind = Kind::kRegex, .text = "a"},
                                      {.kind = Kind::kChoice, .text = "[\"a\"]"},
                                      {.kind = Kind::kJsonSchema, .text = "true"},
                                      {.kind = Kind::kEbnf, .text = "root ::= \"a\""}}) {
    grammar::Expressions expressions;
    const auto rule = grammar::Translate(source, {}, expressions);
    ASSERT_TRUE(rule.ok()) << rule.status();
    EXPECT_GE(expressions.rules()[static_cast<size_t>(*rule)].body, 0);
  }
}

}  // namespace
}  // namespace numoe::text
