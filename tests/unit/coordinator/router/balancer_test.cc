// Who gets which request: affinity against load, health and back-off, in virtual time.
#include "coordinator/router/balancer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>

#include "coordinator/router/router_limits.h"
#include "gtest/gtest.h"

namespace numoe::router {
namespace {

// `marks` marks of the conversation `id`, whose text ends with the last one.
PromptPrefix Prompt(uint64_t id, size_t marks) {
  PromptPrefix prompt;
  for (size_t i = 0; i < marks; ++i) prompt.marks.push_back(id * 1'000'000 + i);
  prompt.bytes = marks == 0 ? 0 : MarkBytes(marks - 1);
  return prompt;
}

// Backends 0 to `count` - 1.
void Add(Balancer& balancer, int count) {
  for (int i = 0; i < count; ++i) EXPECT_EQ(balancer.Add(), i);
}

void AllReady(Balancer& balancer) {
  for (const int i : balancer.backends()) balancer.Hear(i, BackendHealth::kReady, "", 0);
}

TEST(Balancer, NobodyIsChosenBeforeItSaidThatItIsReady) {
  Balancer balancer;
  Add(balancer, 2);
  EXPECT_FALSE(balancer.Place({}, {}).has_value());
  balancer.Hear(1, BackendHealth::kReady, "", 0);
  EXPECT_EQ(balancer.Place({}, {})->backend, 1);
}

TEST(Balancer, AConversationStaysWhereItBegan) {
  Balancer balancer;
  Add(balancer, 4);
  AllReady(balancer);
  for (uint64_t talk = 1; talk <= 40; ++talk) {
    const int first = balancer.Place(Prompt(talk, 3), {})->backend;
    // Answers are far longer than questions: most of the prompt is new to the router, and yet the backend's.
    for (const size_t marks : {40u, 90u, 200u}) {
      const auto placed = balancer.Place(Prompt(talk, marks), {});
      EXPECT_EQ(placed->backend, first);
      EXPECT_EQ(placed->by, PlacedBy::kPrefix);
    }
  }
}

TEST(Balancer, NewConversationsSpreadOnAnIdleHouse) {
  Balancer balancer;
  Add(balancer, 4);
  AllReady(balancer);
  std::map<int, int> count;
  for (uint64_t talk = 1; talk <= 400; ++talk) ++count[balancer.Place(Prompt(talk, 20), {})->backend];
  for (int i = 0; i < 4; ++i) EXPECT_EQ(count[i], 100) << "who remembers least is next";
}

TEST(Balancer, ASmallCommonBeginningDoesNotGatherStrangers) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  std::map<int, int> count;
  for (uint64_t talk = 1; talk <= 100; ++talk) {
    PromptPrefix prompt = Prompt(talk, 100);
    const PromptPrefix common = Prompt(9'999, 20);  // everybody's system message
    std::copy(common.marks.begin(), common.marks.end(), prompt.marks.begin());
    ++count[balancer.Place(prompt, {})->backend];
  }
  EXPECT_GT(count[0], 30);
  EXPECT_GT(count[1], 30);
}

TEST(Balancer, WhoHasTooMuchToDoIsNotAskedForItsPrefix) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  std::vector<BackendChoice> running;
  const int home = balancer.Place(Prompt(1, 10), {})->backend;
  int stayed = 0;
  while (running.size() < 100) {
    running.push_back(*balancer.Place(Prompt(1, 10), {}));
    if (running.back().backend != home) break;
    ++stayed;
  }
  EXPECT_GE(stayed, limits::kRouterLoadSlack);
  EXPECT_LE(stayed, limits::kRouterLoadSlack + 1) << "the other one is idle";
  EXPECT_EQ(running.back().by, PlacedBy::kLoad);
  running.clear();
  EXPECT_EQ(balancer.StateOf(home).running, 0);
}

TEST(Balancer, WhatIsTriedIsNotTriedAgainAndOnlyTheReadyAre) {
  Balancer balancer;
  Add(balancer, 3);
  AllReady(balancer);
  balancer.Hear(2, BackendHealth::kDegraded, "a worker is lost", 0);
  EXPECT_EQ(balancer.Place({}, {0})->backend, 1);
  EXPECT_FALSE(balancer.Place({}, {0, 1}).has_value());
  for (int i = 0; i < 2; ++i) balancer.Hear(i, BackendHealth::kOut, "gone", 1);
  EXPECT_EQ(balancer.Place({}, {})->backend, 2) << "its requests wait until it is well";
}

TEST(Balancer, LooksAreRegularAndBackOff) {
  Balancer balancer;
  Add(balancer, 1);
  double now = 10;
  balancer.Hear(0, BackendHealth::kReady, "", now);
  EXPECT_EQ(balancer.NextLook(0), now + limits::kRouterLookSeconds);
  double wait = 0;
  for (int i = 0; i < 10; ++i) {
    balancer.Hear(0, BackendHealth::kOut, "refused", now);
    const double next = balancer.NextLook(0);
    // Requests that meet the same meanwhile do not put it off.
    for (int k = 0; k < 5; ++k) balancer.Hear(0, BackendHealth::kOut, "refused again", now + 0.01);
    EXPECT_EQ(balancer.NextLook(0), next);
    EXPECT_GE(next - now, wait);
    wait = next - now;
    now = next;
  }
  EXPECT_EQ(wait, 5 * limits::kRouterLookSeconds);
  EXPECT_EQ(balancer.StateOf(0).detail, "refused again");
  balancer.Hear(0, BackendHealth::kReady, "", now);
  balancer.Hear(0, BackendHealth::kOut, "refused", now);
  EXPECT_EQ(balancer.NextLook(0), now + limits::kRouterBackOffSecondsMin);
}

TEST(Balancer, WhoWasAwayHasForgotten) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  const int home = balancer.Place(Prompt(1, 10), {})->backend;
  balancer.Hear(home, BackendHealth::kOut, "refused", 1);
  EXPECT_EQ(balancer.prefixes(), 0u);
  balancer.Hear(home, BackendHealth::kReady, "", 2);
  EXPECT_EQ(balancer.Place(Prompt(1, 10), {})->by, PlacedBy::kLoad);
  balancer.ForgetPrefixes();
  EXPECT_EQ(balancer.prefixes(), 0u);
}

TEST(Balancer, KeptAnswersAreWhereTheyWereFound) {
  Balancer balancer;
  Add(balancer, 2);
  EXPECT_FALSE(balancer.ResponseBackend("resp_1").has_value());
  balancer.RememberResponse("resp_1", 1);
  EXPECT_EQ(balancer.ResponseBackend("resp_1"), 1);
  EXPECT_EQ(balancer.PlaceAt(1)->by, PlacedBy::kResponse);
  EXPECT_EQ(balancer.StateOf(1).running, 0);
}

TEST(Balancer, WhoLeavesGetsNothingMoreAndFinishesWhatItHas) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  auto running = balancer.Place(Prompt(1, 10), {});
  const int leaving = running->backend, staying = 1 - leaving;
  balancer.RememberResponse("resp_1", leaving);
  balancer.Leave(leaving);
  EXPECT_TRUE(balancer.StateOf(leaving).leaving);
  EXPECT_EQ(balancer.StateOf(leaving).health, BackendHealth::kOut) << "whatever it says of itself";
  for (uint64_t talk = 1; talk <= 10; ++talk)
    EXPECT_EQ(balancer.Place(Prompt(talk, 10), {})->backend, staying);
  EXPECT_EQ(balancer.PlaceAt(leaving)->backend, leaving) << "nobody else has its answers";
  EXPECT_FALSE(balancer.Remove(leaving)) << "a request runs on it";
  EXPECT_EQ(balancer.backends().size(), 2u);
  running.reset();
  EXPECT_TRUE(balancer.Remove(leaving));
  EXPECT_EQ(balancer.backends(), std::vector<int>{staying});
  EXPECT_FALSE(balancer.ResponseBackend("resp_1").has_value());
}

TEST(Balancer, WhoReturnsInTimeIsAsItWas) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  const int home = balancer.Place(Prompt(1, 10), {})->backend;
  balancer.Leave(home);
  balancer.Return(home);
  EXPECT_EQ(balancer.StateOf(home).health, BackendHealth::kReady);
  const auto placed = balancer.Place(Prompt(1, 20), {});
  EXPECT_EQ(placed->backend, home);
  EXPECT_EQ(placed->by, PlacedBy::kPrefix);
}

TEST(Balancer, NobodyGetsTheNumberOfOneThatWent) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  const int gone = balancer.Place(Prompt(1, 10), {})->backend;
  EXPECT_TRUE(balancer.Remove(gone));
  EXPECT_EQ(balancer.Add(), 2);
  // Whoever still has the number is told that there is nobody.
  EXPECT_FALSE(balancer.Hear(gone, BackendHealth::kReady, "", 1).has_value());
  EXPECT_FALSE(balancer.PlaceAt(gone).has_value());
  balancer.RememberResponse("resp_1", gone);
  EXPECT_FALSE(balancer.ResponseBackend("resp_1").has_value());
  EXPECT_EQ(balancer.StateOf(gone).health, BackendHealth::kOut);
  EXPECT_EQ(balancer.prefixes(), 0u);
  balancer.Hear(2, BackendHealth::kReady, "", 1);
  EXPECT_EQ(balancer.Place(Prompt(1, 10), {})->by, PlacedBy::kLoad);
}

TEST(Balancer, CountsWhatWasPlacedAndWhy) {
  Balancer balancer;
  Add(balancer, 1);
  AllReady(balancer);
  for (const size_t marks : {10u, 20u, 30u}) EXPECT_TRUE(balancer.Place(Prompt(1, marks), {}).has_value());
  EXPECT_TRUE(balancer.PlaceAt(0).has_value());
  balancer.CountRetry(0);
  const BackendState state = balancer.StateOf(0);
  EXPECT_EQ(state.placed, (std::array<uint64_t, kPlacedByCount>{2, 1, 1})) << "prefix, load, response";
  EXPECT_EQ(state.retries, 1u);
}

// Random conversations that come, go on and end while backends fail and return: nobody out of rotation is
// chosen, nobody is chosen beyond the bound, a conversation moves only when its home is out or overloaded,
// and in the end nothing is counted as running.
TEST(Balancer, HoldsItsRulesThroughRandomDays) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const int count = 1 + static_cast<int>(random() % 6);
    Balancer balancer;
    Add(balancer, count);
    std::vector<double> load(static_cast<size_t>(count));
    std::vector<bool> ready(static_cast<size_t>(count), true);
    AllReady(balancer);
    struct Running {
      BackendChoice choice;
      double load;
    };
    std::deque<Running> running;
    uint64_t last_talk = 60;
    std::vector<uint64_t> talks(last_talk);
    std::iota(talks.begin(), talks.end(), 1);
    std::map<uint64_t, std::pair<int, size_t>> homes;  // of conversations: backend, marks
    double now = 0;
    for (int step = 0; step < 4'000; ++step) {
      now += 0.01;
      const auto victim = random() % static_cast<uint64_t>(count);
      if (random() % 200 == 0) {
        ready[victim] = !ready[victim];
        balancer.Hear(static_cast<int>(victim), ready[victim] ? BackendHealth::kReady : BackendHealth::kOut,
                      "", now);
        if (!ready[victim])
          std::erase_if(homes,
                        [&](const auto& home) { return home.second.first == static_cast<int>(victim); });
      }
      while (!running.empty() && (running.size() > 40 || random() % 3 == 0)) {
        load[static_cast<size_t>(running.front().choice.backend)] -= running.front().load;
        running.pop_front();
      }
      uint64_t& talk = talks[random() % talks.size()];
      const auto home = homes.find(talk);
      const size_t marks = (home == homes.end() ? 0 : home->second.second) + 1 + random() % 5;
      if (marks > 150) {  // it ends
        homes.erase(talk);
        talk = ++last_talk;
        continue;
      }
      const PromptPrefix prompt = Prompt(talk, marks);
      auto placed = balancer.Place(prompt, {});
      const bool any = std::find(ready.begin(), ready.end(), true) != ready.end();
      ASSERT_EQ(placed.has_value(), any);
      if (!placed) continue;
      const auto chosen = static_cast<size_t>(placed->backend);
      ASSERT_TRUE(ready[chosen]);
      double least = 1e9;
      for (size_t i = 0; i < load.size(); ++i)
        if (ready[i]) least = std::min(least, load[i]);
      const double bound = limits::kRouterLoadFactorMax * least + limits::kRouterLoadSlack + 1e-6;
      ASSERT_LE(load[chosen], bound);
      if (placed->by == PlacedBy::kLoad) {
        ASSERT_LE(load[chosen], least + 1e-6);
      }
      if (home != homes.end() && home->second.first != placed->backend) {
        ASSERT_GT(load[static_cast<size_t>(home->second.first)], bound - 2e-6) << "it moved without need";
      }
      homes[talk] = {placed->backend, marks};
      const double weight = 1 + static_cast<double>(prompt.bytes) / (32 << 10);
      load[chosen] += weight;
      running.push_back({*std::move(placed), weight});
    }
    running.clear();
    for (int i = 0; i < count; ++i) EXPECT_EQ(balancer.StateOf(i).running, 0);
  }
}

}  // namespace
}  // namespace numoe::router
