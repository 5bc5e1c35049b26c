// On which nodes rings lie, and what the metric says of several.
#include "expert_worker/service/ring_place.h"

#include "expert_worker/experts/worker_home.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

// A ring of the real size, on this machine's first node, made by a thread that may only run there.
TEST(RingPlaceTest, TheRingLiesOnTheWorkersNode) {
  const auto home = FindHome({.threads = 1});
  ASSERT_TRUE(home.ok()) << home.status();
  const std::vector<int> nodes = home->nodes;
  RingPlaces places;
  EXPECT_EQ(places.least(), std::nullopt);
  {
    const absl::StatusOr<RingSegment> ring = CreateRingOn(nodes, 1 << 20, /*session=*/1);
    ASSERT_TRUE(ring.ok()) << ring.status();
    const ScopedRingPlace here(places, *ring, nodes);
    if (!places.least()) GTEST_SKIP() << "the kernel does not say where pages are";
    EXPECT_EQ(places.least(), 1.0);
    const ScopedRingPlace elsewhere(places, *ring, {777});
    EXPECT_EQ(places.least(), 0.0) << "the worst one counts";
  }
  EXPECT_EQ(places.least(), std::nullopt);
}

TEST(RingPlaceTest, WithoutNodesItLiesAnywhereAndNothingIsSaid) {
  RingPlaces places;
  const absl::StatusOr<RingSegment> ring = CreateRingOn({}, 1 << 16, /*session=*/9);
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ(ring->session(), 9u);
  const ScopedRingPlace place(places, *ring, {});
  EXPECT_EQ(places.least(), std::nullopt);
}

}  // namespace
}  // namespace numoe
