// The block pool, compared to a plain model of it in random histories: the holders of each block, and the
// known prefixes with their blocks. Also: idle blocks are evicted in order of use, and wrong releases end the
// process.
#include "coordinator/engine/kvcache/block_pool.h"

#include <map>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

constexpr int kBlockTokens = 4;

std::vector<TokenId> Tokens(int seed) { return std::vector<TokenId>(kBlockTokens, seed); }

// Sequences that walk the prefix tree: each takes the known prefix of a random prompt, adds blocks and
// publishes them.
class History {
 public:
  explicit History(int blocks) : pool_(blocks, kBlockTokens) {}

  void Begin(std::mt19937& random) {
    Held held;
    held.salt = random() % 4 == 0 ? "other" : "";
    PrefixNode node = kEmptyPrefix;
    for (int depth = 0; depth < 6; ++depth) {
      const int token = static_cast<int>(random() % 2);
      const auto next = pool_.Find(node, held.salt, Tokens(token));
      if (!next) break;
      node = *next;
      const auto block = pool_.BlockOf(node);
      ASSERT_TRUE(block.has_value()) << "a prefix was found, but has no block";
      held.path.push_back(token);
      ASSERT_EQ(content_.at(*block), (std::pair{held.salt, held.path})) << "the rows of another prefix";
      pool_.Retain(*block);
      held.blocks.push_back(*block);
      held.node = node;
      ++found_;
    }
    sequences_.push_back(held);
  }

  void Grow(std::mt19937& random) {
    Held& held = sequences_[random() % sequences_.size()];
    const auto block = pool_.Allocate();
    if (!block) {
      ASSERT_EQ(pool_.free_blocks(), 0);
      ++refused_;
      return;
    }
    for (const Held& other : sequences_) {
      ASSERT_EQ(std::count(other.blocks.begin(), other.blocks.end(), *block), 0)
          << "the block was allocated twice";
    }
    const int token = static_cast<int>(random() % 2);
    held.path.push_back(token);
    held.blocks.push_back(*block);
    content_[*block] = {held.salt, held.path};
    held.node = pool_.Publish(held.node, held.salt, Tokens(token), *block);
  }

  void End(std::mt19937& random) {
    const size_t i = random() % sequences_.size();
    for (auto block = sequences_[i].blocks.rbegin(); block != sequences_[i].blocks.rend(); ++block)
      pool_.Release(*block);
    sequences_.erase(sequences_.begin() + static_cast<int64_t>(i));
  }

  void Check() {
    std::map<KvBlockId, int> holders;
    for (const Held& held : sequences_) {
      for (const KvBlockId block : held.blocks) ++holders[block];
    }
    for (KvBlockId block = 0; block < pool_.total_blocks(); ++block)
      ASSERT_EQ(pool_.holders(block), holders.count(block) > 0 ? holders[block] : 0);
    ASSERT_EQ(pool_.used_blocks(), static_cast<int>(holders.size()));
    pool_.CheckInvariants();
  }

  bool Empty() const { return sequences_.empty(); }
  BlockPool pool_;
  int found_ = 0;
  int refused_ = 0;

 private:
  struct Held {
    std::string salt;
    std::vector<int> path;
    std::vector<KvBlockId> blocks;
    PrefixNode node = kEmptyPrefix;
  };
  std::vector<Held> sequences_;
  std::map<KvBlockId, std::pair<std::string, std::vector<int>>> content_;
};

TEST(BlockPoolTest, SharedPrefixesAlwaysHoldTheRightRows) {
  std::mt19937 random(4);
  History history(37);
  for (int round = 0; round < 30'000; ++round) {
    const bool taking = round / 500 % 2 == 0;  // phases that mostly allocate and phases that mostly release
    if (history.Empty() || random() % 4 == 0) {
      history.Begin(random);
    } else if ((random() % 4 != 0) == taking) {
      history.Grow(random);
    } else {
      history.End(random);
    }
    if (random() % 2000 == 0) history.pool_.UnpublishBySalt("");
    history.Check();
    if (HasFatalFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(history.found_, 1000);
  EXPECT_GT(history.refused_, 100);
}

TEST(BlockPoolTest, IdleBlocksAreEvictedLeastRecentlyUsedFirstAndTailsBeforeHeads) {
  BlockPool pool(3, kBlockTokens);
  const auto chain = [&](int first, int blocks) {
    PrefixNode node = kEmptyPrefix;
    std::vector<KvBlockId> held;
    for (int i = 0; i < blocks; ++i) {
      held.push_back(*pool.Allocate());
      node = pool.Publish(node, "", Tokens(first + i), held.back());
    }
    for (auto block = held.rbegin(); block != held.rend(); ++block) pool.Release(*block);
  };
  chain(10, 2);
  chain(20, 1);
  EXPECT_EQ(pool.idle_blocks(), 3);
  const PrefixNode head = *pool.Find(kEmptyPrefix, "", Tokens(10));
  ASSERT_TRUE(pool.Allocate().has_value());
  EXPECT_FALSE(pool.Find(head, "", Tokens(11)).has_value()) << "the tail of the older chain is evicted first";
  ASSERT_TRUE(pool.Find(kEmptyPrefix, "", Tokens(10)).has_value());
  ASSERT_TRUE(pool.Allocate().has_value());
  EXPECT_FALSE(pool.Find(kEmptyPrefix, "", Tokens(10)).has_value());
  EXPECT_TRUE(pool.Find(kEmptyPrefix, "", Tokens(20)).has_value())
      << "it was used last, so it is kept longest";
  ASSERT_TRUE(pool.Allocate().has_value());
  EXPECT_FALSE(pool.Allocate().has_value());
}

TEST(BlockPoolTest, PrefixesOfDifferentSaltsAreSeparateAndUnpublishedBlocksAreNotFound) {
  BlockPool pool(4, kBlockTokens);
  const KvBlockId block = *pool.Allocate();
  const PrefixNode node = pool.Publish(kEmptyPrefix, "tenant", Tokens(1), block);
  EXPECT_FALSE(pool.Find(kEmptyPrefix, "", Tokens(1)).has_value());
  EXPECT_FALSE(pool.Find(kEmptyPrefix, "Tenant", Tokens(1)).has_value());
  EXPECT_EQ(pool.Find(kEmptyPrefix, "tenant", Tokens(1)), node);
  const KvBlockId twin = *pool.Allocate();
  EXPECT_EQ(pool.Publish(kEmptyPrefix, "tenant", Tokens(1), twin), node) << "the first block keeps the name";
  EXPECT_EQ(pool.BlockOf(node), block);
  pool.Unpublish(block);
  EXPECT_FALSE(pool.BlockOf(node).has_value());
  pool.Release(block);
  pool.Release(twin);
  EXPECT_EQ(pool.idle_blocks(), 0);
  pool.CheckInvariants();
}

// PublishAll gives consecutive blocks, new ones and known ones in any mixture, the names that they would get
// one by one.
TEST(BlockPoolTest, PublishAllGivesTheSameNamesAsPublish) {
  std::mt19937 random(3);
  BlockPool together(4000, kBlockTokens), one_by_one(4000, kBlockTokens);
  for (int run = 0; run < 60; ++run) {
    const std::string salt = run % 5 == 0 ? "tenant" : "";
    const size_t count = 1 + random() % 50;
    // Common beginnings of every length, then tokens that only this round uses.
    const size_t common = random() % (count + 1);
    std::vector<TokenId> tokens;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<TokenId> block = Tokens(i < common ? static_cast<int>(i % 3) : 100 + run);
      tokens.insert(tokens.end(), block.begin(), block.end());
    }
    std::vector<KvBlockId> blocks;
    for (size_t i = 0; i < count; ++i) {
      blocks.push_back(*together.Allocate());
      ASSERT_EQ(one_by_one.Allocate(), blocks.back());
    }
    std::vector<PrefixNode> expected, nodes = {kEmptyPrefix};
    for (size_t i = 0; i < count; ++i) {
      const auto block = absl::MakeConstSpan(tokens).subspan(i * kBlockTokens, kBlockTokens);
      expected.push_back(one_by_one.Publish(i == 0 ? kEmptyPrefix : expected.back(), salt, block, blocks[i]));
    }
    together.PublishAll(kEmptyPrefix, salt, tokens, blocks, nodes);
    EXPECT_EQ(std::vector<PrefixNode>(nodes.begin() + 1, nodes.end()), expected) << "PublishAll must append";
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      together.Release(*block);
      one_by_one.Release(*block);
    }
    if (run % 20 == 19) {
      together.UnpublishBySalt("");
      one_by_one.UnpublishBySalt("");
    }
    together.CheckInvariants();
  }
  EXPECT_EQ(together.free_blocks(), 4000);
}

TEST(BlockPoolTest, UnpublishBySaltRemovesOnlyThePrefixesOfThisSalt) {
  BlockPool pool(6, 2);
  const std::vector<TokenId> tokens = {1, 2, 3, 4};
  const auto publish = [&](const char* salt) {
    std::vector<KvBlockId> blocks = {*pool.Allocate(), *pool.Allocate()};
    std::vector<PrefixNode> nodes;
    pool.PublishAll(kEmptyPrefix, salt, tokens, blocks, nodes);
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) pool.Release(*block);
  };
  const auto finds = [&](const char* salt) {
    const auto first = pool.Find(kEmptyPrefix, salt, absl::MakeConstSpan(tokens).subspan(0, 2));
    return first && pool.Find(*first, salt, absl::MakeConstSpan(tokens).subspan(2, 2)).has_value();
  };
  for (const char* salt : {"", "1:mine", "11:"}) publish(salt);
  pool.UnpublishBySalt("1:");
  EXPECT_FALSE(finds("1:mine"));
  EXPECT_TRUE(finds("11:"));
  EXPECT_TRUE(finds(""));
  pool.CheckInvariants();
  pool.UnpublishBySalt("");
  EXPECT_FALSE(finds("11:"));
  EXPECT_FALSE(finds(""));
  pool.CheckInvariants();
  EXPECT_EQ(pool.free_blocks(), 6);
}

TEST(BlockPoolTest, BlocksForRoundsUp) {
  const BlockPool pool(4, 16);
  EXPECT_EQ(pool.BlocksFor(0), 0);
  EXPECT_EQ(pool.BlocksFor(1), 1);
  EXPECT_EQ(pool.BlocksFor(16), 1);
  EXPECT_EQ(pool.BlocksFor(17), 2);
}

TEST(BlockPoolDeathTest, WrongReleasesEndTheProcess) {
  BlockPool pool(4, kBlockTokens);
  const KvBlockId block = *pool.Allocate();
  pool.Release(block);
  EXPECT_DEATH(pool.Release(block), "released more often than held");
  EXPECT_DEATH(pool.Release(4), "");
  EXPECT_DEATH(pool.Retain(block), "neither held nor published");
}

}  // namespace
}  // namespace numoe::engine
