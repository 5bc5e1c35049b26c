// Ids are never 0, which means "none" on the wire, and never the same.
#include "common/base/random_id.h"

#include <set>

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(RandomIdTest, IsNeverZeroNorTheSame) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(RandomId());
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(ids.count(0), 0u);
}

}  // namespace
}  // namespace numoe
