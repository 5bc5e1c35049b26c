// The planner's views of running and waiting sequences and their tenants.
#include "coordinator/engine/scheduler/sequence_views.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int kBlockTokens = 4;

SequencePtr Prompted(int prompt_tokens, Tenant tenant = {}, SamplingParams sampling = {}) {
  std::vector<TokenId> prompt(static_cast<size_t>(prompt_tokens));
  std::iota(prompt.begin(), prompt.end(), 1);
  return std::make_unique<Sequence>(
      EngineRequest{
          .prompt = std::move(prompt), .sampling = std::move(sampling), .tenant = std::move(tenant)},
      SequenceLimits{.tokens_max = 100, .vocab = 1'000});
}

// Returns a sequence of which steps have computed this number of tokens.
void Compute(BlockTables& tables, Sequence& s, int tokens) {
  tables.Grow(s, s.kv.cached + tokens);
  tables.Computed(s, tokens);
  tables.Publish(s);
}

TEST(SequenceViewsTest, SharedBlocksAreCountedOnlyWhenBlocksAreShort) {
  BlockPool pool(6, kBlockTokens);
  BlockTables tables(pool, /*prefix_caching=*/true, 0);
  std::vector<SequencePtr> running;
  running.push_back(Prompted(9, {.id = 3}));
  Compute(tables, *running[0], 9);
  running.push_back(Prompted(9, {.id = 4}, {.max_tokens = 5}));
  tables.FindPrefix(*running[1]);
  tables.TakePrefix(*running[1]);
  running.push_back(Prompted(5, {}, {.prompt_logprobs = 0}));
  const std::vector<SequenceView> roomy = ViewRunning(running, tables, pool, /*prompt_tokens=*/1);
  ASSERT_EQ(roomy.size(), 3u);
  EXPECT_EQ(roomy[0].tokens, 9);
  EXPECT_EQ(roomy[0].cached, 9);
  EXPECT_EQ(roomy[0].blocks, 3);
  EXPECT_EQ(roomy[0].tenant, 3);
  EXPECT_EQ(roomy[1].tokens_max, 14);
  EXPECT_EQ(roomy[1].cached, 8);
  EXPECT_TRUE(roomy[2].prompt_logits && !roomy[1].prompt_logits);
  EXPECT_EQ(roomy[0].shared, 0) << "shared blocks are not counted while blocks are free";
  const SequencePtr other = Prompted(12);
  tables.Grow(*other, kBlockTokens * pool.free_blocks());
  const std::vector<SequenceView> full = ViewRunning(running, tables, pool, /*prompt_tokens=*/1);
  EXPECT_EQ(full[0].shared, 2);
  EXPECT_EQ(full[1].shared, 2);
  EXPECT_EQ(full[2].shared, 0);
}

TEST(SequenceViewsTest, AWaitingSequenceHasTheBlocksThatWereFoundForIt) {
  BlockPool pool(6, kBlockTokens);
  BlockTables tables(pool, /*prefix_caching=*/true, 0);
  const SequencePtr first = Prompted(9);
  Compute(tables, *first, 9);
  const SequencePtr second = Prompted(9, {.id = 7});
  SequenceView view = ViewWaiting(*second, tables, pool);
  EXPECT_EQ(view.blocks, 2);
  EXPECT_EQ(view.cached, 8);
  EXPECT_EQ(view.idle, 0) << "the first sequence holds them";
  EXPECT_EQ(view.tenant, 7);
  tables.Release(*first);
  EXPECT_EQ(ViewWaiting(*second, tables, pool).idle, 2);
}

TEST(SequenceViewsTest, TenantsWithWaitingSequencesOrRunningPromptsAreActive) {
  std::vector<SequencePtr> running;
  for (const int tenant : {1, 2, 3}) running.push_back(Prompted(5, {.id = tenant, .weight = 10 * tenant}));
  running[0]->kv.cached = 4;
  running[2]->kv.cached = 4;
  EXPECT_EQ(CountDecoding(running), 2);
  EXPECT_THAT(ActiveTenants(running, {{3, {.requests = 1, .weight = 5}}}),
              ElementsAre(Pair(2, 20), Pair(3, 5)));
}

}  // namespace
}  // namespace numoe::engine
