// Who gives way to a new connection, and who never does.
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
  void GiveWay() override { ++gave_way; }
  int dropped = 0, gave_way = 0;
  std::function<void()> on_drop;
};

TEST(OpenConnectionsTest, TheOneThatHasRestedLongestGivesWay) {
  OpenConnections open(2);
  Peer a, b, c, d;
  EXPECT_TRUE(open.Enter(&a));
  EXPECT_TRUE(open.Enter(&b));
  EXPECT_TRUE(open.Ask(&a));
  open.Rest(&a);  // a has asked since: b is the one that has been silent for longest
  EXPECT_TRUE(open.Enter(&c));
  EXPECT_EQ(b.gave_way, 1);
  EXPECT_EQ(a.gave_way, 0);
  EXPECT_EQ(open.size(), 2u);
  EXPECT_FALSE(open.Ask(&b)) << "it has given way already";
  EXPECT_FALSE(open.Await(&b));
  open.Leave(&b);
  EXPECT_TRUE(open.Enter(&d));
  EXPECT_EQ(a.gave_way, 1);
}

TEST(OpenConnectionsTest, WhoSendsABodyGivesWayAfterThoseThatRest) {
  OpenConnections open(3);
  Peer sending, resting, answering, next, last;
  for (Peer* peer : {&sending, &resting, &answering}) open.Enter(peer);
  EXPECT_TRUE(open.Await(&sending));
  EXPECT_TRUE(open.Ask(&answering));
  EXPECT_TRUE(open.Enter(&next));
  EXPECT_EQ(resting.gave_way, 1);
  EXPECT_TRUE(open.Ask(&next));
  EXPECT_TRUE(open.Enter(&last));
  EXPECT_EQ(sending.gave_way, 1) << "there was nobody else";
  EXPECT_EQ(answering.gave_way + next.gave_way, 0);
}

TEST(OpenConnectionsTest, AwaitingTwiceDoesNotStartAnew) {
  OpenConnections open(2);
  Peer first, second, next;
  open.Enter(&first);
  open.Enter(&second);
  open.Await(&first);
  open.Await(&second);
  open.Await(&first);
  open.Enter(&next);
  EXPECT_EQ(first.gave_way, 1);
}

TEST(OpenConnectionsTest, WhereAllAnswerTheNewOneHasASparePlace) {
  OpenConnections open(1);
  Peer answering, spare, next;
  open.Enter(&answering);
  open.Ask(&answering);
  EXPECT_FALSE(open.Enter(&spare));
  open.Rest(&spare);
  EXPECT_FALSE(open.Enter(&next)) << "those in spare places do not give way";
  EXPECT_EQ(spare.gave_way, 0);
  open.Leave(&answering);
  open.Leave(&answering);
  EXPECT_EQ(open.size(), 2u);
  Peer later;
  EXPECT_TRUE(open.Enter(&later)) << "the usual place is free again, once";
}

TEST(OpenConnectionsTest, AnswersAreDroppedOnceThoughOneEndsAnother) {
  OpenConnections open(4);
  Peer a, b;
  open.Enter(&a);
  open.Enter(&b);
  a.on_drop = [&] { open.Leave(&b); };
  b.on_drop = [&] { open.Leave(&a); };
  open.DropAnswers();
  EXPECT_EQ(a.dropped + b.dropped, 1);
  EXPECT_EQ(open.size(), 1u);
}

}  // namespace
}  // namespace numoe::net
