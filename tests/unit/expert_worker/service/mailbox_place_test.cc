// On which nodes mailbox segments lie, and what the metric says of several.
#include "expert_worker/service/mailbox_place.h"

#include "expert_worker/experts/worker_home.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

// A segment of the real size, on this machine's first node, made by a thread that may only run there.
TEST(MailboxPlaceTest, TheSegmentLiesOnTheWorkersNode) {
  const auto home = FindHome({.threads = 1});
  ASSERT_TRUE(home.ok()) << home.status();
  const std::vector<int> nodes = home->nodes;
  MailboxPlaces places;
  EXPECT_EQ(places.least(), std::nullopt);
  {
    const absl::StatusOr<MailboxSegment> mailbox = CreateMailboxOn(nodes, 1 << 20, /*session=*/1);
    ASSERT_TRUE(mailbox.ok()) << mailbox.status();
    const ScopedMailboxPlace here(places, *mailbox, nodes);
    if (!places.least()) GTEST_SKIP() << "the kernel does not say where pages are";
    EXPECT_EQ(places.least(), 1.0);
    const ScopedMailboxPlace elsewhere(places, *mailbox, {777});
    EXPECT_EQ(places.least(), 0.0) << "the worst one counts";
  }
  EXPECT_EQ(places.least(), std::nullopt);
}

TEST(MailboxPlaceTest, WithoutNodesItLiesAnywhereAndNothingIsSaid) {
  MailboxPlaces places;
  const absl::StatusOr<MailboxSegment> mailbox = CreateMailboxOn({}, 1 << 16, /*session=*/9);
  ASSERT_TRUE(mailbox.ok()) << mailbox.status();
  EXPECT_EQ(mailbox->session(), 9u);
  const ScopedMailboxPlace place(places, *mailbox, {});
  EXPECT_EQ(places.least(), std::nullopt);
}

}  // namespace
}  // namespace numoe::worker
