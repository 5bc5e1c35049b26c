// The lines of waiting sequences, one for each tenant, and the order of running sequences.
#include "coordinator/engine/scheduler/fair_queue.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

SequencePtr Make(SequenceId id, Tenant tenant, int priority = 0) {
  auto s = std::make_unique<Sequence>(
      EngineRequest{.prompt = {1}, .tenant = std::move(tenant), .priority = priority},
      SequenceLimits{.tokens_max = 2, .vocab = 2});
  s->id = id;
  return s;
}

// Matches a line with this number of requests and this weight.
auto Line(int requests, int weight) {
  return ::testing::AllOf(::testing::Field(&TenantLine::requests, requests),
                          ::testing::Field(&TenantLine::weight, weight));
}

TEST(FairQueueTest, ALineIsSortedByPriorityThenArrival) {
  FairQueue queue;
  queue.Add(Make(1, {.id = 1}));
  queue.Add(Make(2, {.id = 1}, -5));
  queue.Add(Make(3, {.id = 2}, -1'000'000));
  queue.Add(Make(4, {.id = 1}));
  EXPECT_EQ(queue.size(), 4);
  EXPECT_THAT(queue.Lines(), ElementsAre(Pair(1, Line(3, 1)), Pair(2, Line(1, 1))));
  EXPECT_EQ(queue.At(1, 1).id, 1);
  for (const SequenceId expected : {2, 1, 4}) EXPECT_EQ(queue.TakeFirst(1)->id, expected);
  EXPECT_THAT(queue.Lines(), ElementsAre(Pair(2, Line(1, 1))));
  EXPECT_EQ(queue.TakeFirst(2)->id, 3);
  EXPECT_TRUE(queue.empty() && queue.Lines().empty());
}

TEST(FairQueueTest, EndedSequencesAreRemovedAndATenantWithoutSequencesToo) {
  FairQueue queue;
  for (SequenceId id = 1; id <= 6; ++id) queue.Add(Make(id, {.id = id <= 3 ? 1 : 2, .weight = 4}));
  queue.ForEach([](Sequence& s) {
    if (s.id <= 3 || s.id == 5) s.ending = TokenEvent{};
  });
  std::vector<SequenceId> ended;
  queue.RemoveEnded([&](Sequence& s) { ended.push_back(s.id); });
  EXPECT_THAT(ended, ElementsAre(1, 2, 3, 5));
  EXPECT_EQ(queue.size(), 2);
  EXPECT_THAT(queue.Lines(), ElementsAre(Pair(2, Line(2, 4))));
}

std::vector<SequenceId> Ordered(std::vector<SequencePtr> running) {
  OrderByTurns(running);
  std::vector<SequenceId> ids;
  for (const SequencePtr& s : running) ids.push_back(s->id);
  return ids;
}

std::vector<SequencePtr> List(std::vector<std::tuple<SequenceId, Tenant, int>> items) {
  std::vector<SequencePtr> list;
  for (auto& [id, tenant, priority] : items) list.push_back(Make(id, tenant, priority));
  return list;
}

TEST(OrderByTurnsTest, TheSequencesOfATenantAreSortedByPriorityThenArrival) {
  EXPECT_THAT(Ordered(List({{4, {}, 0}, {1, {}, 0}, {3, {}, -1}, {2, {}, 1}})), ElementsAre(3, 1, 4, 2));
}

TEST(OrderByTurnsTest, APriorityDoesNotAffectOtherTenantsAndTheTenantWithMostSequencesComesLast) {
  const Tenant a{.id = 1}, b{.id = 2};
  EXPECT_THAT(Ordered(List({{1, b, 0}, {2, a, -9}, {3, a, -9}, {4, a, -10}, {5, b, 0}})),
              ElementsAre(1, 4, 2, 5, 3));
}

TEST(OrderByTurnsTest, ATenantHasAsManySequencesInATurnAsItsWeight) {
  const Tenant heavy{.id = 1, .weight = 2}, light{.id = 2};
  EXPECT_THAT(Ordered(List({{1, light, 0}, {2, light, 0}, {3, heavy, 0}, {4, heavy, 0}, {5, heavy, 0}})),
              ElementsAre(1, 3, 4, 2, 5));
}

TEST(TenantLinesTest, AFullQueueTakesTheFirstRequestOfEveryTenantAndAtMostTwiceItsSizeOfOthers) {
  constexpr int kQueueMax = 100;
  TenantLines waiting;
  const auto total = [&] {
    return std::accumulate(waiting.begin(), waiting.end(), 0,
                           [](int sum, const auto& line) { return sum + line.second.requests; });
  };
  // Tenants that come one after another, each with as many requests as the queue takes.
  int tenants = 0;
  for (int tenant = 1; tenant <= 40; ++tenant, ++tenants) {
    int taken = 0;
    while (total() < kQueueMax || FullQueueTakes(waiting, tenant, 1, kQueueMax)) {
      waiting[tenant] = {.requests = ++taken, .weight = 1};
    }
    EXPECT_GE(taken, 1);
  }
  EXPECT_GE(total(), 2 * kQueueMax);
  EXPECT_LE(total(), 2 * kQueueMax + tenants);
}

}  // namespace
}  // namespace numoe::engine
