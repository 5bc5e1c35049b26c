#include "common/base/descriptors.h"

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(DescriptorsTest, TheLimitRisesAsFarAsItMay) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  low.rlim_max = std::min<rlim_t>(before.rlim_max, 4096);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(RaiseDescriptorLimit(), low.rlim_max);
  rlimit after = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, low.rlim_max);
  EXPECT_EQ(after.rlim_max, low.rlim_max);
}

}  // namespace
}  // namespace numoe
