// Blocks of sequences: what a prefix saves, what is shared, and what is forgotten.
#include "coordinator/scheduler/block_tables.h"

#include <numeric>

#include "gtest/gtest.h"

namespace numoe {
namespace {

constexpr int kBlock = 4;

class BlockTablesTest : public ::testing::Test {
 protected:
  static Sequence Of(int tokens, const std::string& salt = "") {
    Sequence s;
    s.tokens.resize(static_cast<size_t>(tokens));
    std::iota(s.tokens.begin(), s.tokens.end(), 1);
    s.prompt_tokens = tokens;
    s.request.cache_salt = salt;
    return s;
  }
  // As a step would compute it.
  static void Compute(BlockTables& tables, Sequence& s) {
    tables.FindPrefix(s);
    tables.TakePrefix(s);
    const auto all = static_cast<int64_t>(s.tokens.size());
    tables.Grow(s, all);
    s.cached = all;
    tables.Publish(s);
  }
  BlockPool pool_{16, kBlock};
};

TEST_F(BlockTablesTest, ASecondSequenceTakesTheFirstOnesBlocksButNeverItsLastToken) {
  BlockTables tables(pool_, /*prefix_caching=*/true, /*fixed_chunk_tokens=*/0);
  Sequence first = Of(12), second = Of(12);
  Compute(tables, first);
  EXPECT_EQ(first.reused, 0);
  EXPECT_EQ(first.blocks.size(), 3u);
  tables.FindPrefix(second);
  EXPECT_EQ(second.prefixes.size(), 2u) << "the last token is computed for its logits";
  EXPECT_EQ(tables.IdleBlocks(second), 0);
  tables.TakePrefix(second);
  EXPECT_EQ(second.cached, 8);
  EXPECT_EQ(second.reused, 8);
  EXPECT_EQ(second.blocks[0], first.blocks[0]);
  EXPECT_EQ(tables.SharedBlocks(second), 2);
  tables.Release(first);
  EXPECT_EQ(tables.SharedBlocks(second), 0);
  EXPECT_EQ(first.cached, 0);
  EXPECT_TRUE(first.blocks.empty());
}

TEST_F(BlockTablesTest, ReleasedBlocksAreFoundWhileTheyAreIdle) {
  BlockTables tables(pool_, true, 0);
  Sequence first = Of(12);
  Compute(tables, first);
  tables.Release(first);
  Sequence next = Of(12);
  tables.FindPrefix(next);
  EXPECT_EQ(tables.IdleBlocks(next), 2);
  Sequence filler = Of(kBlock * 16, "other");
  filler.tokens.assign(filler.tokens.size(), 77);
  tables.Grow(filler, kBlock * 16);
  tables.FindPrefix(next);
  EXPECT_EQ(next.prefixes.size(), 0u) << "the pool has given them out";
}

TEST_F(BlockTablesTest, SaltsShareNothing) {
  BlockTables tables(pool_, true, 0);
  Sequence mine = Of(12, "a"), other = Of(12, "b");
  Compute(tables, mine);
  tables.FindPrefix(other);
  EXPECT_TRUE(other.prefixes.empty());
}

TEST_F(BlockTablesTest, WithoutPrefixCachingNothingIsNamed) {
  BlockTables tables(pool_, false, 0);
  Sequence first = Of(12), second = Of(12);
  Compute(tables, first);
  tables.FindPrefix(second);
  EXPECT_TRUE(second.prefixes.empty());
}

TEST_F(BlockTablesTest, PrefixesEndWhereDeterministicChunksDo) {
  BlockTables tables(pool_, true, /*fixed_chunk_tokens=*/2 * kBlock);
  Sequence first = Of(21), second = Of(17), third = Of(15);
  Compute(tables, first);
  tables.FindPrefix(second);
  EXPECT_EQ(second.prefixes.size(), 4u);
  tables.FindPrefix(third);
  EXPECT_EQ(third.prefixes.size(), 2u) << "three blocks are known, and the chunk ends at the second";
}

TEST_F(BlockTablesTest, WhatIsScoredIsComputedWhole) {
  BlockTables tables(pool_, true, 0);
  Sequence first = Of(12), scored = Of(12);
  Compute(tables, first);
  scored.request.sampling.prompt_logprobs = 0;
  tables.FindPrefix(scored);
  EXPECT_TRUE(scored.prefixes.empty());
}

TEST_F(BlockTablesTest, WhatADistrustedSequenceComputedIsNobodyElses) {
  BlockTables tables(pool_, true, 0);
  Sequence first = Of(9), longer = Of(17);
  Compute(tables, first);
  Compute(tables, longer);
  EXPECT_EQ(longer.reused, 8);
  tables.Distrust(longer);
  Sequence next = Of(17);
  tables.FindPrefix(next);
  EXPECT_EQ(next.prefixes.size(), 2u) << "the first one's are still good";
}

}  // namespace
}  // namespace numoe
