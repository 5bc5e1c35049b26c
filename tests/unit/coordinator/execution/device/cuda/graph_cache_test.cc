// The cache keeps a limited number of captured steps, those that were used last.
#include "coordinator/execution/device/cuda/graph_cache.h"

#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

struct Counted final : Graph {
  explicit Counted(int* count) : alive(count) { ++*alive; }
  ~Counted() override { --*alive; }
  int* const alive;
};

TEST(GraphCacheTest, TheGraphUsedLongestAgoIsReplaced) {
  int alive = 0;
  {
    GraphCache cache(/*graphs_max=*/3);
    const auto bucket = [](int rows) { return StepBucket{.rows = rows, .blocks_per_sequence = 4}; };
    for (int rows = 1; rows <= 3; ++rows) cache.Insert(bucket(rows), std::make_unique<Counted>(&alive));
    Graph* const first = cache.Find(bucket(1));
    EXPECT_NE(first, nullptr);
    cache.Insert(bucket(4), std::make_unique<Counted>(&alive));
    EXPECT_EQ(cache.Find(bucket(2)), nullptr);
    EXPECT_EQ(cache.Find(bucket(1)), first);
    EXPECT_NE(cache.Find(bucket(3)), nullptr);
    EXPECT_NE(cache.Find(bucket(4)), nullptr);
    EXPECT_EQ(cache.Find({.rows = 4, .blocks_per_sequence = 4, .exact = true}), nullptr) << "another bucket";
    EXPECT_EQ(alive, 3);
    for (int rows = 10; rows < 100; ++rows) cache.Insert(bucket(rows), std::make_unique<Counted>(&alive));
    EXPECT_EQ(alive, 3);
    EXPECT_EQ(cache.size(), 3u);
    EXPECT_NE(cache.Find(bucket(99)), nullptr);
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace numoe::execution::cuda
