// Grammars of every kind of source: what they accept and refuse, their masks, roll back, and forced bytes.
#include "coordinator/grammar/compiled_grammar.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/coordinator/grammar/grammar_testing.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

TEST(CompiledGrammarTest, JsonObject) {
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

TEST(CompiledGrammarTest, RandomTextsOfAnyObjectAreAcceptedInEverySplit) {
  const GrammarPtr grammar = Compiled(Kind::kJsonObject, "");
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string text = RandomText(grammar, random);
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
    EXPECT_TRUE(Accepts(grammar, text)) << text;
    EXPECT_TRUE(AcceptsSplit(grammar, text, random)) << text;
  }
}

TEST(CompiledGrammarTest, MasksAreWhatTryingFinds) {
  std::mt19937_64 random(2);
  for (const auto& [kind, source] : std::vector<std::pair<Kind, std::string>>{
           {Kind::kJsonObject, ""},
           {Kind::kRegex, "(abc|a+)*x{2,5}(é|日本)?"},
           {Kind::kRegex, "[a-z ]{0,12}(the)?"},
           {Kind::kChoice, R"(["abc", "ab", "the name", "true"])"},
           {Kind::kJsonSchema, R"({"type":"object","properties":{"name":{"type":"string"},
              "id":{"type":"integer"},"a":{"type":"array","items":{"type":"string","maxLength":9}}}})"}}) {
    const GrammarPtr grammar = Compiled(kind, source);
    ASSERT_NE(grammar, nullptr);
    for (int walk = 0; walk < 5; ++walk) {
      GrammarState state(grammar);
      const std::string text = RandomText(grammar, random);
      for (const char c : text.substr(0, 60)) {
        CheckMaskByTrying(state, *grammar);
        ASSERT_TRUE(state.Accept(static_cast<uint8_t>(c)));
      }
      CheckMaskByTrying(state, *grammar);
    }
  }
}

TEST(CompiledGrammarTest, RollbackRestoresEveryEarlierState) {
  const GrammarPtr grammar = Compiled(Kind::kJsonObject, "");
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; ++i) {
    const std::string text = RandomText(grammar, random);
    GrammarState state(grammar);
    size_t at = 0;
    while (at < text.size()) {
      const size_t drafted = std::min<size_t>(1 + random() % 20, text.size() - at);
      for (size_t d = 0; d < drafted; ++d) ASSERT_TRUE(state.Accept(static_cast<uint8_t>(text[at + d])));
      const size_t rejected = random() % (drafted + 1);
      state.Rollback(rejected);
      at += drafted - rejected;
      GrammarState fresh(grammar);
      for (const char c : text.substr(0, at)) ASSERT_TRUE(fresh.Accept(static_cast<uint8_t>(c)));
      std::vector<uint64_t> mask(grammar->vocabulary().mask_words()), expected = mask;
      ASSERT_TRUE(state.FillMask(absl::MakeSpan(mask)).ok());
      ASSERT_TRUE(fresh.FillMask(absl::MakeSpan(expected)).ok());
      ASSERT_EQ(mask, expected) << text.substr(0, at);
    }
    EXPECT_TRUE(state.IsDone());
  }
}

TEST(CompiledGrammarTest, NothingFollowsTheEnd) {
  const GrammarPtr grammar = Compiled(Kind::kChoice, R"(["a"])");
  GrammarState state(grammar);
  const TokenId end = grammar->vocabulary().end_tokens()[0];
  EXPECT_FALSE(state.Accept(end));
  EXPECT_FALSE(state.Accept(-1));
  EXPECT_FALSE(state.Accept(grammar->vocabulary().size()));
  EXPECT_TRUE(state.Accept('a'));
  EXPECT_FALSE(state.Accept('a'));
  EXPECT_TRUE(state.Accept(end));
  EXPECT_TRUE(state.IsFinished());
  EXPECT_FALSE(state.Accept(end));
  state.Rollback(2);
  EXPECT_FALSE(state.IsFinished());
  EXPECT_TRUE(state.Accept('a'));
}

TEST(CompiledGrammarTest, AStateCanHaveEndTokensOfItsOwn) {
  const GrammarPtr grammar = Compiled(Kind::kChoice, R"(["a"])");
  const TokenId other = '}';  // stands for the end of a tool call
  GrammarState state(grammar, {&other, 1});
  EXPECT_FALSE(state.Accept(other));
  ASSERT_TRUE(state.Accept('a'));
  std::vector<uint64_t> mask(grammar->vocabulary().mask_words()), expected(mask.size());
  ASSERT_TRUE(state.FillMask(absl::MakeSpan(mask)).ok());
  grammar::SetBit(absl::MakeSpan(expected), other);
  EXPECT_EQ(mask, expected);
  EXPECT_FALSE(state.Accept(grammar->vocabulary().end_tokens()[0]));
  EXPECT_TRUE(state.Accept(other));
  EXPECT_TRUE(state.IsFinished());
}

TEST(CompiledGrammarTest, ForcedBytesAreThoseWithoutAChoice) {
  const GrammarPtr grammar =
      Compiled(Kind::kJsonSchema, R"({"type":"object","required":["name","kind"],"properties":
        {"name":{"const":"x"},"kind":{"enum":["abc","abd"]}}})");
  GrammarState state(grammar);
  EXPECT_EQ(state.ForcedBytes(100), R"({"name":)");
  EXPECT_EQ(state.ForcedBytes(3), "{\"n");
  for (const char c : std::string_view(R"({"name":")")) ASSERT_TRUE(state.Accept(static_cast<uint8_t>(c)));
  EXPECT_EQ(state.ForcedBytes(100), "x\",");
  for (const char c : std::string_view("x\", \"kind\": ")) ASSERT_TRUE(state.Accept(static_cast<uint8_t>(c)));
  EXPECT_EQ(state.ForcedBytes(100), "\"ab");
}

TEST(CompiledGrammarTest, Regex) {
  const auto matches = [](const char* pattern, const char* text) {
    return Accepts(Compiled(Kind::kRegex, pattern), text);
  };
  EXPECT_TRUE(matches("^\\d{3}-[a-f]+$", "123-abc"));
  EXPECT_FALSE(matches("\\d{3}-[a-f]+", "123-abg"));
  EXPECT_TRUE(matches("(?:a|b)*c?", ""));
  EXPECT_TRUE(matches("[^a]", "日"));
  EXPECT_FALSE(matches("[^a]", "\xe6\x97"));
  EXPECT_TRUE(matches("\\p{Lu}\\p{L}*", "Éa日"));
  EXPECT_FALSE(matches("\\p{Lu}", "é"));
  EXPECT_TRUE(matches("a{2}{", "aa{"));
  EXPECT_TRUE(matches("\\u00e9\\x41\\u{1F600}\\uD83D\\uDE00", "éA😀😀"));
  EXPECT_TRUE(matches("(?<year>\\d{4})(?P<x>\\W)", "2024é"));
  EXPECT_TRUE(matches("a(^|b)c", "abc"));
  EXPECT_FALSE(matches("a(^|b)c", "ac"));
  EXPECT_FALSE(matches(".", "\n"));
  EXPECT_TRUE(matches("[\\s\\S]", "\n"));
  EXPECT_TRUE(matches("[\\w-]+[a-]", "a-b-"));
}

TEST(CompiledGrammarTest, RegexErrorsNameTheTrouble) {
  const auto error = [](const char* pattern) { return CompileError(Kind::kRegex, pattern); };
  EXPECT_THAT(error("a(?=b)"), HasSubstr("at byte 3 of the regular expression: look-ahead"));
  EXPECT_THAT(error("(?<!b)"), HasSubstr("look-behind"));
  EXPECT_THAT(error("(a)\\1"), HasSubstr("back reference"));
  EXPECT_THAT(error("\\bword"), HasSubstr("word boundary"));
  EXPECT_THAT(error("a**"), HasSubstr("quantifier follows"));
  EXPECT_THAT(error("(a"), HasSubstr("without its ')'"));
  EXPECT_THAT(error("a)"), HasSubstr("without its '('"));
  EXPECT_THAT(error("[z-a]"), HasSubstr("ends before it begins"));
  EXPECT_THAT(error("a{3,1}"), HasSubstr("maximum is below"));
  EXPECT_THAT(error("\\p{Greek}"), HasSubstr("Unicode property Greek"));
  EXPECT_THAT(error("(a|b)*a(a|b){40}"), HasSubstr("too large"));
  EXPECT_THAT(error("((a{1000}){1000}){1000}"), HasSubstr("too large"));
  EXPECT_THAT(error("a$b"), HasSubstr("no text at all matches"));
  EXPECT_THAT(error("\xff"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(error(std::string(5000, '(').c_str()), HasSubstr("nest too deep"));
}

TEST(CompiledGrammarTest, Choice) {
  const GrammarPtr grammar = Compiled(Kind::kChoice, R"(["yes", "no", "not \"sure\"", "日本"])");
  for (const char* text : {"yes", "no", "not \"sure\"", "日本"}) EXPECT_TRUE(Accepts(grammar, text)) << text;
  for (const char* text : {"", "ye", "yesno", "日"}) EXPECT_FALSE(Accepts(grammar, text)) << text;
  EXPECT_THAT(CompileError(Kind::kChoice, "[]"), HasSubstr("one or more strings"));
  EXPECT_THAT(CompileError(Kind::kChoice, "[1]"), HasSubstr("choice 0"));
}

TEST(CompiledGrammarTest, LimitsAreNamed) {
  EXPECT_THAT(CompileError(Kind::kRegex, std::string(2 << 20, 'a')), HasSubstr("has 2097152 bytes, at most"));
  EXPECT_THAT(CompileError(Kind::kRegex, "[ab]{1000}", {.dfa_states = 100}),
              HasSubstr("more than 100 states"));
}

TEST(CompiledGrammarTest, AFrameIsPartOfTheText) {
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

TEST(CompiledGrammarTest, AFrameCountsAgainstTheLimit) {
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

}  // namespace
}  // namespace numoe
