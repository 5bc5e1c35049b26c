// Blocks of sequences: found prefixes, shared blocks, and unpublished blocks.
#include "coordinator/engine/scheduler/block_tables.h"

#include <numeric>

#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

constexpr int kBlock = 4;

class BlockTablesTest : public ::testing::Test {
 protected:
  static Sequence Of(int tokens, const std::string& salt = "", SamplingParams sampling = {}) {
    EngineRequest request{.prompt = std::vector<TokenId>(static_cast<size_t>(tokens)),
                          .sampling = std::move(sampling)};
    std::iota(request.prompt.begin(), request.prompt.end(), 1);
    request.cache_salt = salt;
    return Sequence(std::move(request), {.tokens_max = 1000, .vocab = 1000, .eos_token_ids = {}});
  }
  // Does what a step does with the sequence.
  static void Compute(BlockTables& tables, Sequence& s) {
    tables.FindPrefix(s);
    tables.TakePrefix(s);
    const auto all = static_cast<int64_t>(s.tokens.size());
    tables.Grow(s, all);
    tables.Computed(s, static_cast<int>(s.uncached()));
    tables.Publish(s);
  }
  BlockPool pool_{16, kBlock};
};

TEST_F(BlockTablesTest, ASecondSequenceSharesTheFirstOnesBlocksExceptForItsLastToken) {
  BlockTables tables(pool_, /*prefix_caching=*/true, /*fixed_chunk_tokens=*/0);
  Sequence first = Of(12), second = Of(12);
  Compute(tables, first);
  EXPECT_EQ(first.kv.reused, 0);
  EXPECT_EQ(first.kv.blocks.size(), 3u);
  tables.FindPrefix(second);
  EXPECT_EQ(second.kv.prefixes.size(), 2u) << "the last token must be computed for its logits";
  EXPECT_EQ(tables.IdleBlocks(second), 0);
  tables.TakePrefix(second);
  EXPECT_EQ(second.kv.cached, 8);
  EXPECT_EQ(second.kv.reused, 8);
  EXPECT_EQ(second.kv.blocks[0], first.kv.blocks[0]);
  EXPECT_EQ(tables.SharedBlocks(second), 2);
  tables.Release(first);
  EXPECT_EQ(tables.SharedBlocks(second), 0);
  EXPECT_EQ(first.kv.cached, 0);
  EXPECT_TRUE(first.kv.blocks.empty());
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
  EXPECT_EQ(next.kv.prefixes.size(), 0u) << "the pool has allocated them to another sequence";
}

TEST_F(BlockTablesTest, SequencesOfDifferentSaltsShareNothing) {
  BlockTables tables(pool_, true, 0);
  Sequence mine = Of(12, "a"), other = Of(12, "b");
  Compute(tables, mine);
  tables.FindPrefix(other);
  EXPECT_TRUE(other.kv.prefixes.empty());
}

TEST_F(BlockTablesTest, WithoutPrefixCachingNothingIsPublished) {
  BlockTables tables(pool_, false, 0);
  Sequence first = Of(12), second = Of(12);
  Compute(tables, first);
  tables.FindPrefix(second);
  EXPECT_TRUE(second.kv.prefixes.empty());
}

TEST_F(BlockTablesTest, PrefixesEndWhereDeterministicChunksDo) {
  BlockTables tables(pool_, true, /*fixed_chunk_tokens=*/2 * kBlock);
  Sequence first = Of(21), second = Of(17), third = Of(15);
  Compute(tables, first);
  tables.FindPrefix(second);
  EXPECT_EQ(second.kv.prefixes.size(), 4u);
  tables.FindPrefix(third);
  EXPECT_EQ(third.kv.prefixes.size(), 2u) << "three blocks are known, and the chunk ends at the second";
}

TEST_F(BlockTablesTest, APromptThatIsScoredIsComputedCompletely) {
  BlockTables tables(pool_, true, 0);
  Sequence first = Of(12), scored = Of(12, "", {.prompt_logprobs = 0});
  Compute(tables, first);
  tables.FindPrefix(scored);
  EXPECT_TRUE(scored.kv.prefixes.empty());
}

TEST_F(BlockTablesTest, BlocksThatAnUnpublishedSequenceComputedAreNotShared) {
  BlockTables tables(pool_, true, 0);
  Sequence first = Of(9), longer = Of(17);
  Compute(tables, first);
  Compute(tables, longer);
  EXPECT_EQ(longer.kv.reused, 8);
  tables.Unpublish(longer);
  Sequence next = Of(17);
  tables.FindPrefix(next);
  EXPECT_EQ(next.kv.prefixes.size(), 2u) << "the first sequence's blocks are still published";
}

}  // namespace
}  // namespace numoe::engine
