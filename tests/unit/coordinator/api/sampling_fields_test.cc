// Which sampling parameters a server can lock, and at what.
#include "coordinator/api/sampling_fields.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

// The list of names follows what requests are read by: each of them can be wrong.
TEST(SamplingFieldsTest, EveryNameThatCanBeLockedIsRead) {
  for (const char* name :
       {"temperature", "top_p", "top_k", "min_p", "seed", "sampling_seed", "n", "best_of",
        "frequency_penalty", "presence_penalty", "repetition_penalty", "min_tokens", "min_new_tokens"}) {
    EXPECT_TRUE(CheckSamplingValue(name, 1).ok()) << CheckSamplingValue(name, 1);
    const absl::Status wrong = CheckSamplingValue(name, -1e300);
    EXPECT_THAT(std::string(wrong.message()), HasSubstr(name)) << wrong;
  }
}

TEST(SamplingFieldsTest, OtherNamesAreToldWhatThereIs) {
  for (const char* name : {"tmperature", "", "logit_bias", "messages", "stop"})
    EXPECT_THAT(std::string(CheckSamplingValue(name, 1).message()), HasSubstr("top_k")) << name;
}

// A count that is locked at 40 must not come as 40.0, which no request may send.
TEST(SamplingFieldsTest, WholeNumbersHaveNoPoint) {
  EXPECT_TRUE(CheckSamplingValue("top_k", 40).ok());
  EXPECT_FALSE(CheckSamplingValue("top_k", 40.5).ok());
  EXPECT_EQ(SamplingNumber(40).dump(), "40");
  EXPECT_EQ(SamplingNumber(-1).dump(), "-1");
  EXPECT_EQ(SamplingNumber(0.6).dump(), "0.6");
}

}  // namespace
}  // namespace numoe
