// Which connection is evicted by a new one, and which never is.
#include "coordinator/net/http/open_connections.h"

#include <functional>

#include "gtest/gtest.h"

namespace numoe::net {
namespace {

struct Peer final : OpenConnections::Member {
  void DropAnswer() override {
    ++dropped;
    if (on_drop) on_drop();
  }
  void Evict() override { ++evicted; }
  int dropped = 0, evicted = 0;
  std::function<void()> on_drop;
};

TEST(OpenConnectionsTest, TheLongestIdleConnectionIsEvicted) {
  OpenConnections open(2);
  Peer a, b, c, d;
  EXPECT_TRUE(open.Add(&a));
  EXPECT_TRUE(open.Add(&b));
  EXPECT_TRUE(open.SetBusy(&a));
  open.SetIdle(&a);  // a has had a request since then, so b has been idle for longest
  EXPECT_TRUE(open.Add(&c));
  EXPECT_EQ(b.evicted, 1);
  EXPECT_EQ(a.evicted, 0);
  EXPECT_EQ(open.size(), 2u);
  EXPECT_FALSE(open.SetBusy(&b)) << "it has been evicted";
  EXPECT_FALSE(open.SetReadingBody(&b));
  open.Remove(&b);
  EXPECT_TRUE(open.Add(&d));
  EXPECT_EQ(a.evicted, 1);
}

TEST(OpenConnectionsTest, SendersOfBodiesAreEvictedAfterIdleConnections) {
  OpenConnections open(3);
  Peer sending, resting, answering, next, last;
  for (Peer* peer : {&sending, &resting, &answering}) open.Add(peer);
  EXPECT_TRUE(open.SetReadingBody(&sending));
  EXPECT_TRUE(open.SetBusy(&answering));
  EXPECT_TRUE(open.Add(&next));
  EXPECT_EQ(resting.evicted, 1);
  EXPECT_TRUE(open.SetBusy(&next));
  EXPECT_TRUE(open.Add(&last));
  EXPECT_EQ(sending.evicted, 1) << "there was no idle connection";
  EXPECT_EQ(answering.evicted + next.evicted, 0);
}

TEST(OpenConnectionsTest, SetReadingBodyTwiceKeepsThePosition) {
  OpenConnections open(2);
  Peer first, second, next;
  open.Add(&first);
  open.Add(&second);
  open.SetReadingBody(&first);
  open.SetReadingBody(&second);
  open.SetReadingBody(&first);
  open.Add(&next);
  EXPECT_EQ(first.evicted, 1);
}

TEST(OpenConnectionsTest, IfAllAreBusyANewConnectionGetsASpareSlot) {
  OpenConnections open(1);
  Peer answering, spare, next;
  open.Add(&answering);
  open.SetBusy(&answering);
  EXPECT_FALSE(open.Add(&spare));
  open.SetIdle(&spare);
  EXPECT_FALSE(open.Add(&next)) << "connections with spare slots are not evicted";
  EXPECT_EQ(spare.evicted, 0);
  open.Remove(&answering);
  open.Remove(&answering);
  EXPECT_EQ(open.size(), 2u);
  Peer later;
  EXPECT_TRUE(open.Add(&later)) << "the regular slot is free again, once";
}

TEST(OpenConnectionsTest, AnswersAreDroppedOnceEvenIfOneEndsAnother) {
  OpenConnections open(4);
  Peer a, b;
  open.Add(&a);
  open.Add(&b);
  a.on_drop = [&] { open.Remove(&b); };
  b.on_drop = [&] { open.Remove(&a); };
  open.DropAnswers();
  EXPECT_EQ(a.dropped + b.dropped, 1);
  EXPECT_EQ(open.size(), 1u);
}

}  // namespace
}  // namespace numoe::net
