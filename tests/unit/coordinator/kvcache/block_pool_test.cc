// The block pool against a plain set: what is handed out is nobody else's, what comes back can go out again,
// and a block freed wrongly ends the process.
#include "coordinator/kvcache/block_pool.h"

#include <map>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(BlockPoolTest, RandomOwnersNeverShareABlock) {
  constexpr int kBlocks = 37;
  BlockPool pool(kBlocks, 16);
  std::map<SequenceId, std::set<int32_t>> owned;
  std::mt19937 random(4);
  int used = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const SequenceId owner = static_cast<SequenceId>(random() % 5);
    // Phases that mostly take and phases that mostly give, so that both ends are reached.
    const bool taking = round / 500 % 2 == 0;
    if ((random() % 4 != 0) == taking || owned[owner].empty()) {
      const auto block = pool.Allocate(owner);
      ASSERT_EQ(block.has_value(), used < kBlocks);
      if (!block) {
        ++refused;
        continue;
      }
      ASSERT_TRUE(*block >= 0 && *block < kBlocks);
      for (const auto& [other, blocks] : owned)
        ASSERT_EQ(blocks.count(*block), 0u) << "shared with " << other;
      owned[owner].insert(*block);
      ++used;
    } else {
      const int32_t block = *owned[owner].begin();
      pool.Free(block, owner);
      owned[owner].erase(block);
      --used;
    }
    ASSERT_EQ(pool.used_blocks(), used);
    ASSERT_EQ(pool.free_blocks(), kBlocks - used);
    pool.CheckInvariants();
  }
  EXPECT_GT(refused, 0);
}

TEST(BlockPoolTest, BlocksForRoundsUp) {
  const BlockPool pool(4, 16);
  EXPECT_EQ(pool.BlocksFor(0), 0);
  EXPECT_EQ(pool.BlocksFor(1), 1);
  EXPECT_EQ(pool.BlocksFor(16), 1);
  EXPECT_EQ(pool.BlocksFor(17), 2);
}

TEST(BlockPoolDeathTest, WrongFreesAreFound) {
  BlockPool pool(4, 16);
  const int32_t block = *pool.Allocate(1);
  EXPECT_DEATH(pool.Free(block, 2), "");
  pool.Free(block, 1);
  EXPECT_DEATH(pool.Free(block, 1), "");
  EXPECT_DEATH(pool.Free(4, 1), "");
}

}  // namespace
}  // namespace numoe
