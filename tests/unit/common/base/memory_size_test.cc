#include "common/base/memory_size.h"

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(MemorySizeTest, IsInMibBelowOneGibAndInGibFromThere) {
  constexpr uint64_t kMib = 1 << 20, kGib = 1 << 30;
  EXPECT_EQ(MemorySize(0), "0.0 MiB");
  EXPECT_EQ(MemorySize(3 * kMib), "3.0 MiB");
  EXPECT_EQ(MemorySize(kGib - kMib), "1023.0 MiB");
  EXPECT_EQ(MemorySize(kGib), "1.00 GiB");
  EXPECT_EQ(MemorySize(12 * kGib + kGib / 2), "12.50 GiB");
}

}  // namespace
}  // namespace numoe
