// Lines are broken like by Python's textwrap.
#include "coordinator/text/chat/jinja_word_wrap.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text::jinja {
namespace {

using Lines = std::vector<std::string>;

TEST(JinjaWordWrapTest, BreaksAtSpacesHyphensAndInsideLongWords) {
  EXPECT_EQ(WrapWords("friend-of-mine, how are", {.width = 10}), (Lines{"friend-of-", "mine, how", "are"}));
  EXPECT_EQ(WrapWords("abcdefgh", {.width = 3}), (Lines{"abc", "def", "gh"}));
  EXPECT_EQ(WrapWords("abcdefgh i", {.width = 3, .break_long_words = false}), (Lines{"abcdefgh", "i"}));
  EXPECT_EQ(WrapWords("ab-cd", {.width = 3, .break_on_hyphens = false}), (Lines{"ab-", "cd"}));
  EXPECT_EQ(WrapWords("\u00fc\u00fc \u00fc\u00fc", {.width = 2}), (Lines{"\u00fc\u00fc", "\u00fc\u00fc"}));
  EXPECT_EQ(WrapWords("", {}), Lines());
}

}  // namespace
}  // namespace numoe::text::jinja
