// Words of thresholds, there and back.
#include "coordinator/startup/token_threshold.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::startup {
namespace {

TEST(TokenThresholdTest, WordsBecomeValuesAndBack) {
  EXPECT_EQ(ParseTokenThreshold("off").value(), TokenThreshold(Never{}));
  EXPECT_EQ(ParseTokenThreshold("auto").value(), TokenThreshold(Measured{}));
  EXPECT_EQ(ParseTokenThreshold("2").value(), TokenThreshold(FromTokens{2}));
  for (const std::string word : {"off", "auto", "2", "4096"})
    EXPECT_EQ(ToString(ParseTokenThreshold(word).value()), word);
}

TEST(TokenThresholdTest, OtherWordsAreRefused) {
  for (const std::string word : {"", "on", "1", "0", "-5", "64k", " 64", "99999999999"}) {
    const auto threshold = ParseTokenThreshold(word);
    EXPECT_TRUE(absl::IsInvalidArgument(threshold.status())) << word;
    EXPECT_THAT(
        std::string(threshold.status().message()),
        ::testing::HasSubstr("found \"" + word + "\", expected auto, off or a number of tokens, 2 or more"));
  }
}

}  // namespace
}  // namespace numoe::startup
