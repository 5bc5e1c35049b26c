#include "coordinator/text/grammar/repeat_count.h"

#include "gtest/gtest.h"

namespace numoe::text::grammar {
namespace {

TEST(RepeatCountTest, DigitsAreReadUpToAnotherCharacter) {
  size_t at = 1;
  EXPECT_EQ(TakeRepeatCount("{0124,", at).value(), 124);
  EXPECT_EQ(at, 5u);
  EXPECT_EQ(TakeRepeatCount("{0124,", at).value(), std::nullopt) << "a comma is not a count";
  EXPECT_EQ(at, 5u);
  at = 2;
  EXPECT_EQ(TakeRepeatCount("{7", at).value(), std::nullopt) << "the text has ended";
}

TEST(RepeatCountTest, TheLargestCountIsReadAndOneMoreIsRefused) {
  size_t at = 0;
  EXPECT_EQ(TakeRepeatCount("1000000}", at).value(), kRepeatMax);
  for (const char* text : {"1000001}", "99999999999999999999}"}) {
    at = 0;
    const auto count = TakeRepeatCount(text, at);
    EXPECT_EQ(count.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(count.status().message(), "a repetition of more than 1000000, the largest count");
    EXPECT_EQ(at, 6u) << text;
  }
}

}  // namespace
}  // namespace numoe::text::grammar
