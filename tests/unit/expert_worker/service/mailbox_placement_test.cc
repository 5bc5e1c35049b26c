// The nodes of mailbox segments, and the metric of several segments.
#include "expert_worker/service/mailbox_placement.h"

#include "expert_worker/experts/worker_home.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

// A segment of the real size on this machine's first node, created by a thread that may run only there.
TEST(MailboxPlacementTest, TheSegmentIsOnTheWorkersNode) {
  const auto home = FindHome({.threads = 1});
  ASSERT_TRUE(home.ok()) << home.status();
  const std::vector<int> nodes = home->nodes;
  MailboxPlacements placements;
  EXPECT_EQ(placements.least(), std::nullopt);
  {
    const absl::StatusOr<MailboxSegment> mailbox = CreateMailboxOn(nodes, 1 << 20, /*session=*/1);
    ASSERT_TRUE(mailbox.ok()) << mailbox.status();
    const ScopedMailboxPlacement here(placements, *mailbox, nodes);
    if (!placements.least()) GTEST_SKIP() << "the kernel does not say where pages are";
    EXPECT_EQ(placements.least(), 1.0);
    const ScopedMailboxPlacement elsewhere(placements, *mailbox, {777});
    EXPECT_EQ(placements.least(), 0.0) << "the worst one counts";
  }
  EXPECT_EQ(placements.least(), std::nullopt);
}

TEST(MailboxPlacementTest, WithoutNodesItMayBeAnywhereAndIsNotCounted) {
  MailboxPlacements placements;
  const absl::StatusOr<MailboxSegment> mailbox = CreateMailboxOn({}, 1 << 16, /*session=*/9);
  ASSERT_TRUE(mailbox.ok()) << mailbox.status();
  EXPECT_EQ(mailbox->session(), 9u);
  const ScopedMailboxPlacement placement(placements, *mailbox, {});
  EXPECT_EQ(placements.least(), std::nullopt);
}

}  // namespace
}  // namespace numoe::worker
