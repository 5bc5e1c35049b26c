// Patterns that PCRE2 alone would match differently from the engines for which they were written (Rust,
// Oniguruma).
#include "coordinator/text/tokenizer/pattern.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(const std::string& expression, const std::string& text) {
  const auto pattern = Pattern::Compile(expression);
  EXPECT_TRUE(pattern.ok()) << expression << ": " << pattern.status();
  std::vector<std::string> pieces;
  if (pattern.ok()) pattern->Split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::string Repeat(std::string_view unit, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += unit;
  return text;
}

// JIT code has 32 KiB of stack; a pattern that needs a frame for each letter exhausts it after about 4,000
// letters.
TEST(PatternTest, TextAfterLongWordsIsStillDivided) {
  for (const std::string_view unit : {"a", "A", "ก", "か", "가", "é"}) {
    const std::string word = Repeat(unit, 25'000);
    EXPECT_THAT(Split(kKimiPattern, word + " DON'T 12345"), ElementsAre(word, " DON'T", " ", "123", "45"))
        << unit;
  }
}

TEST(PatternTest, MatchesThatExceedTheJitStackAreRepeatedByTheInterpreter) {
  const std::string word = Repeat("a", 100'000);
  EXPECT_THAT(Split("(?:(?!b)\\p{L})+| ", word + " aab"), ElementsAre(word, " ", "aa", "b"));
}

TEST(PatternTest, WhiteSpaceIsUnicodesOwn) {
  // Only PCRE2 counts U+180E as white space.
  EXPECT_THAT(Split("\\s+", "a\u180eb"), ElementsAre("a\u180eb"));
  EXPECT_THAT(Split("[^\\s]+", "a\u180eb"), ElementsAre("a\u180eb"));
  EXPECT_THAT(Split("\\S+", "a\u180eb"), ElementsAre("a\u180eb"));
  for (const char* space :
       {"\t", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f", "\u3000"}) {
    EXPECT_THAT(Split("\\s", std::string("a") + space + "b"), ElementsAre("a", space, "b"));
  }
  EXPECT_THAT(Split(kKimiPattern, "\u180e(d"), ElementsAre("\u180e(", "d"));
}

TEST(PatternTest, HanIsTheScriptAndIncludesCharactersNewerThanPcre2) {
  EXPECT_THAT(Split(kKimiPattern, "世界かな"), ElementsAre("世界", "かな"));
  // Script extensions would count the ideographic full stop and the middle dot as Han.
  EXPECT_THAT(Split(kKimiPattern, "世。界"), ElementsAre("世", "。", "界"));
  for (const char* han : {"\U0002B739", "\U0002EBF0", "\U0002EE5D", "\U00031350", "\U000323AF"}) {
    EXPECT_THAT(Split(kKimiPattern, std::string("(") + han + "世a"),
                ElementsAre("(", std::string(han) + "世", "a"));
  }
}

TEST(PatternTest, WordsAreDividedBeforeTheLastLetterOfAnUpperCaseRun) {
  EXPECT_THAT(Split(kKimiPattern, "XMLHttpRequest fooBar's"),
              ElementsAre("XMLHttp", "Request", " foo", "Bar's"));
}

TEST(PatternTest, EmptyMatchesAdvanceByWholeCharacters) {
  EXPECT_THAT(Split("x*", "世xx界"), ElementsAre("世", "xx", "界"));
}

TEST(PatternTest, ClassesThatPcre2WouldMisreadAreRefused) {
  EXPECT_THAT(Pattern::Compile("[\\p{L}&&[^\\p{Han}]]+").status().ToString(),
              HasSubstr("byte 6: found \"&&\""));
  EXPECT_THAT(Pattern::Compile("[a[bc]]").status().ToString(), HasSubstr("byte 2: found \"[\""));
  EXPECT_THAT(Pattern::Compile("(a").status().ToString(), HasSubstr("pattern at byte"));
  // Ordinary members that only look like such classes.
  EXPECT_THAT(Split("[]&[:digit:]\\[]+", "a]&7[b"), ElementsAre("a", "]&7[", "b"));
  EXPECT_THAT(Split("a&&b", "xa&&b"), ElementsAre("x", "a&&b"));
}

}  // namespace
}  // namespace numoe::text
