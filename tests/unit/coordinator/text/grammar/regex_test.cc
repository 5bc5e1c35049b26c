// Regular expressions: the texts that they match, and errors with the byte position.
#include "coordinator/text/grammar/regex.h"

#include "coordinator/text/grammar/json_syntax.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

using ::testing::HasSubstr;

TEST(RegexTest, WholeTexts) {
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

TEST(RegexTest, ErrorsNameTheProblem) {
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

TEST(RegexTest, ASearchMatchesAnywhere) {
  const auto found = [](const char* pattern, const char* text) {
    const auto machine =
        grammar::CompileRegex(pattern, grammar::RegexMatch::kSearch, grammar::EncodePlain, {});
    EXPECT_TRUE(machine.ok()) << machine.status();
    return machine.ok() && grammar::Matches(**machine, text);
  };
  EXPECT_TRUE(found("b", "abc"));
  EXPECT_FALSE(found("^b", "abc"));
  EXPECT_TRUE(found("c$", "abc"));
  EXPECT_TRUE(found("^$|x", ""));
  EXPECT_FALSE(found("^$|x", "a"));
}

}  // namespace
}  // namespace numoe::text
