// Letter case and white space, as in Python's str.
#include "coordinator/text/chat/jinja_text.h"

#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

TEST(JinjaTextTest, CaseOfOtherScripts) {
  EXPECT_EQ(Lower("ÄÖ ΣΔ ЖЯ 1x"), "äö σδ жя 1x");
  EXPECT_EQ(Upper("äö σδ жя 1X"), "ÄÖ ΣΔ ЖЯ 1X");
  EXPECT_EQ(Title("élan vital, o'neil x2y"), "Élan Vital, O'Neil X2Y");
  EXPECT_EQ(Capitalize("ÉLAN Vital"), "Élan vital");
  EXPECT_EQ(Capitalize(""), "");
}

TEST(JinjaTextTest, BytesThatAreNotUtf8AreUnchanged) {
  EXPECT_EQ(Upper("a\xFF"
                  "b\xC3"),
            "A\xFF"
            "B\xC3");
  EXPECT_EQ(Lower("A\xE4\xBD"), "a\xE4\xBD") << "an incomplete character";
}

TEST(JinjaTextTest, TextWithoutLettersIsNeitherLowerNorUpper) {
  EXPECT_TRUE(IsLower("abc 1"));
  EXPECT_FALSE(IsLower("aBc"));
  EXPECT_FALSE(IsLower("123"));
  EXPECT_TRUE(IsUpper("ÄB 1"));
  EXPECT_FALSE(IsUpper("Äb"));
  EXPECT_FALSE(IsUpper(""));
}

TEST(JinjaTextTest, WhiteSpaceIsThatOfPython) {
  for (const char* space : {" ", "\t", "\n", "\v", "\f", "\r", "\x1C", "\x1F", "\u0085", "\u00A0", "\u1680",
                            "\u2000", "\u2005", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"}) {
    EXPECT_EQ(SpaceLength(std::string(space) + "x"), std::string_view(space).size()) << space;
  }
  for (const char* other : {"", "x", "\u200B", "\u180E", "\uFEFF", "\u2060", "\xE2\x80", "\xC2"})
    EXPECT_EQ(SpaceLength(other), 0u) << other;
}

TEST(JinjaTextTest, StripsTheRequestedSides) {
  const std::string_view text = "\u3000 a\u00A0b \u2003";
  EXPECT_EQ(StripSpace(text, true, true), "a\u00A0b");
  EXPECT_EQ(StripSpace(text, true, false), "a\u00A0b \u2003");
  EXPECT_EQ(StripSpace(text, false, true), "\u3000 a\u00A0b");
  EXPECT_EQ(StripSpace(text, false, false), text);
  EXPECT_EQ(StripSpace(" \u3000\n", true, true), "");
}

}  // namespace
}  // namespace numoe::text::jinja
