// Which backend gets which request: prefixes against load, health and back-off, in virtual time.
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

// Returns the first `marks` marks of the conversation `id`; the text ends with the last one.
PromptPrefix Prompt(uint64_t id, size_t marks) {
  PromptPrefix prompt;
  for (size_t i = 0; i < marks; ++i) prompt.marks.push_back(id * 1'000'000 + i);
  prompt.bytes = marks == 0 ? 0 : MarkBytes(marks - 1);
  return prompt;
}

// Adds the backends 0 to `count` - 1, all ready.
void Add(Balancer& balancer, int count) {
  for (int i = 0; i < count; ++i) EXPECT_EQ(balancer.Add(), i);
}

void AllReady(Balancer& balancer) {
  for (const int i : balancer.backends()) balancer.RecordHealth(i, BackendHealth::kReady, "", 0);
}

TEST(Balancer, NoBackendIsChosenBeforeItIsReady) {
  Balancer balancer;
  Add(balancer, 2);
  EXPECT_FALSE(balancer.Route({}, {}).has_value());
  balancer.RecordHealth(1, BackendHealth::kReady, "", 0);
  EXPECT_EQ(balancer.Route({}, {})->backend, 1);
}

TEST(Balancer, AConversationStaysOnItsBackend) {
  Balancer balancer;
  Add(balancer, 4);
  AllReady(balancer);
  for (uint64_t talk = 1; talk <= 40; ++talk) {
    const int first = balancer.Route(Prompt(talk, 3), {})->backend;
    // Answers are far longer than questions: most of the prompt is new to the router, but the backend
    // computed it.
    for (const size_t marks : {40u, 90u, 200u}) {
      const auto choice = balancer.Route(Prompt(talk, marks), {});
      EXPECT_EQ(choice->backend, first);
      EXPECT_EQ(choice->by, RouteReason::kPrefix);
    }
  }
}

TEST(Balancer, NewConversationsAreDistributedOverIdleBackends) {
  Balancer balancer;
  Add(balancer, 4);
  AllReady(balancer);
  std::map<int, int> count;
  for (uint64_t talk = 1; talk <= 400; ++talk) ++count[balancer.Route(Prompt(talk, 20), {})->backend];
  for (int i = 0; i < 4; ++i) EXPECT_EQ(count[i], 100) << "the backend with the fewest prefixes is next";
}

TEST(Balancer, AShortCommonBeginningDoesNotGatherConversations) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  std::map<int, int> count;
  for (uint64_t talk = 1; talk <= 100; ++talk) {
    PromptPrefix prompt = Prompt(talk, 100);
    const PromptPrefix common = Prompt(9'999, 20);  // the system message of all
    std::copy(common.marks.begin(), common.marks.end(), prompt.marks.begin());
    ++count[balancer.Route(prompt, {})->backend];
  }
  EXPECT_GT(count[0], 30);
  EXPECT_GT(count[1], 30);
}

TEST(Balancer, AnOverloadedBackendDoesNotGetItsPrefix) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  std::vector<BackendChoice> running;
  const int home = balancer.Route(Prompt(1, 10), {})->backend;
  int stayed = 0;
  while (running.size() < 100) {
    running.push_back(*balancer.Route(Prompt(1, 10), {}));
    if (running.back().backend != home) break;
    ++stayed;
  }
  EXPECT_GE(stayed, limits::kRouterLoadSlack);
  EXPECT_LE(stayed, limits::kRouterLoadSlack + 1) << "the other one is idle";
  EXPECT_EQ(running.back().by, RouteReason::kLoad);
  running.clear();
  EXPECT_EQ(balancer.StateOf(home).running, 0);
}

TEST(Balancer, ABackendIsTriedOnceAndOnlyReadyOnesAreTriedNext) {
  Balancer balancer;
  Add(balancer, 3);
  AllReady(balancer);
  balancer.RecordHealth(2, BackendHealth::kDegraded, "a worker is lost", 0);
  EXPECT_EQ(balancer.Route({}, {0})->backend, 1);
  EXPECT_FALSE(balancer.Route({}, {0, 1}).has_value());
  for (int i = 0; i < 2; ++i) balancer.RecordHealth(i, BackendHealth::kOut, "gone", 1);
  EXPECT_EQ(balancer.Route({}, {})->backend, 2) << "its requests wait until it works again";
}

TEST(Balancer, ChecksAreRegularAndBackOff) {
  Balancer balancer;
  Add(balancer, 1);
  double now = 10;
  balancer.RecordHealth(0, BackendHealth::kReady, "", now);
  EXPECT_EQ(balancer.NextCheck(0), now + limits::kRouterCheckSeconds);
  double wait = 0;
  for (int i = 0; i < 10; ++i) {
    balancer.RecordHealth(0, BackendHealth::kOut, "refused", now);
    const double next = balancer.NextCheck(0);
    // Requests that fail meanwhile do not postpone the next check.
    for (int k = 0; k < 5; ++k) balancer.RecordHealth(0, BackendHealth::kOut, "refused again", now + 0.01);
    EXPECT_EQ(balancer.NextCheck(0), next);
    EXPECT_GE(next - now, wait);
    wait = next - now;
    now = next;
  }
  EXPECT_EQ(wait, 5 * limits::kRouterCheckSeconds);
  EXPECT_EQ(balancer.StateOf(0).detail, "refused again");
  balancer.RecordHealth(0, BackendHealth::kReady, "", now);
  balancer.RecordHealth(0, BackendHealth::kOut, "refused", now);
  EXPECT_EQ(balancer.NextCheck(0), now + limits::kRouterBackOffSecondsMin);
}

TEST(Balancer, ABackendThatWasOutHasNoPrefixes) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  const int home = balancer.Route(Prompt(1, 10), {})->backend;
  balancer.RecordHealth(home, BackendHealth::kOut, "refused", 1);
  EXPECT_EQ(balancer.prefixes(), 0u);
  balancer.RecordHealth(home, BackendHealth::kReady, "", 2);
  EXPECT_EQ(balancer.Route(Prompt(1, 10), {})->by, RouteReason::kLoad);
  balancer.ForgetPrefixes();
  EXPECT_EQ(balancer.prefixes(), 0u);
}

TEST(Balancer, StoredAnswersAreAtTheBackendThatHadThem) {
  Balancer balancer;
  Add(balancer, 2);
  EXPECT_FALSE(balancer.ResponseBackend("resp_1").has_value());
  balancer.RememberResponse("resp_1", 1);
  EXPECT_EQ(balancer.ResponseBackend("resp_1"), 1);
  EXPECT_EQ(balancer.RouteTo(1)->by, RouteReason::kResponse);
  EXPECT_EQ(balancer.StateOf(1).running, 0);
}

TEST(Balancer, ALeavingBackendGetsNothingNewAndFinishesItsRequests) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  auto running = balancer.Route(Prompt(1, 10), {});
  const int leaving = running->backend, staying = 1 - leaving;
  balancer.RememberResponse("resp_1", leaving);
  balancer.Leave(leaving);
  EXPECT_TRUE(balancer.StateOf(leaving).leaving);
  EXPECT_EQ(balancer.StateOf(leaving).health, BackendHealth::kOut) << "whatever it reports";
  for (uint64_t talk = 1; talk <= 10; ++talk)
    EXPECT_EQ(balancer.Route(Prompt(talk, 10), {})->backend, staying);
  EXPECT_EQ(balancer.RouteTo(leaving)->backend, leaving) << "no other backend has its answers";
  EXPECT_FALSE(balancer.Remove(leaving)) << "a request runs on it";
  EXPECT_EQ(balancer.backends().size(), 2u);
  running.reset();
  EXPECT_TRUE(balancer.Remove(leaving));
  EXPECT_EQ(balancer.backends(), std::vector<int>{staying});
  EXPECT_FALSE(balancer.ResponseBackend("resp_1").has_value());
}

TEST(Balancer, ABackendThatReturnsInTimeKeepsItsState) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  const int home = balancer.Route(Prompt(1, 10), {})->backend;
  balancer.Leave(home);
  balancer.Return(home);
  EXPECT_EQ(balancer.StateOf(home).health, BackendHealth::kReady);
  const auto choice = balancer.Route(Prompt(1, 20), {});
  EXPECT_EQ(choice->backend, home);
  EXPECT_EQ(choice->by, RouteReason::kPrefix);
}

TEST(Balancer, NoBackendGetsTheNumberOfARemovedOne) {
  Balancer balancer;
  Add(balancer, 2);
  AllReady(balancer);
  const int gone = balancer.Route(Prompt(1, 10), {})->backend;
  EXPECT_TRUE(balancer.Remove(gone));
  EXPECT_EQ(balancer.Add(), 2);
  // An old number names no backend.
  EXPECT_FALSE(balancer.RecordHealth(gone, BackendHealth::kReady, "", 1).has_value());
  EXPECT_FALSE(balancer.RouteTo(gone).has_value());
  balancer.RememberResponse("resp_1", gone);
  EXPECT_FALSE(balancer.ResponseBackend("resp_1").has_value());
  EXPECT_EQ(balancer.StateOf(gone).health, BackendHealth::kOut);
  EXPECT_EQ(balancer.prefixes(), 0u);
  balancer.RecordHealth(2, BackendHealth::kReady, "", 1);
  EXPECT_EQ(balancer.Route(Prompt(1, 10), {})->by, RouteReason::kLoad);
}

TEST(Balancer, CountsRequestsByReason) {
  Balancer balancer;
  Add(balancer, 1);
  AllReady(balancer);
  for (const size_t marks : {10u, 20u, 30u}) EXPECT_TRUE(balancer.Route(Prompt(1, marks), {}).has_value());
  EXPECT_TRUE(balancer.RouteTo(0).has_value());
  balancer.CountRetry(0);
  const BackendState state = balancer.StateOf(0);
  EXPECT_EQ(state.routed, (std::array<uint64_t, kRouteReasonCount>{2, 1, 1})) << "prefix, load, response";
  EXPECT_EQ(state.retries, 1u);
}

// Random conversations begin, continue and end while backends fail and return. No backend is chosen that is
// out, or whose load is beyond the bound; a conversation moves only if its backend is out or overloaded; and
// in the end no request is counted as running.
TEST(Balancer, KeepsItsRulesWithRandomConversations) {
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
    std::map<uint64_t, std::pair<int, size_t>> homes;  // conversation -> backend, marks
    double now = 0;
    for (int step = 0; step < 4'000; ++step) {
      now += 0.01;
      const auto victim = random() % static_cast<uint64_t>(count);
      if (random() % 200 == 0) {
        ready[victim] = !ready[victim];
        balancer.RecordHealth(static_cast<int>(victim),
                              ready[victim] ? BackendHealth::kReady : BackendHealth::kOut, "", now);
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
      if (marks > 150) {  // the conversation ends
        homes.erase(talk);
        talk = ++last_talk;
        continue;
      }
      const PromptPrefix prompt = Prompt(talk, marks);
      auto choice = balancer.Route(prompt, {});
      const bool any = std::find(ready.begin(), ready.end(), true) != ready.end();
      ASSERT_EQ(choice.has_value(), any);
      if (!choice) continue;
      const auto chosen = static_cast<size_t>(choice->backend);
      ASSERT_TRUE(ready[chosen]);
      double least = 1e9;
      for (size_t i = 0; i < load.size(); ++i)
        if (ready[i]) least = std::min(least, load[i]);
      const double bound = limits::kRouterLoadFactorMax * least + limits::kRouterLoadSlack + 1e-6;
      ASSERT_LE(load[chosen], bound);
      if (choice->by == RouteReason::kLoad) {
        ASSERT_LE(load[chosen], least + 1e-6);
      }
      if (home != homes.end() && home->second.first != choice->backend) {
        ASSERT_GT(load[static_cast<size_t>(home->second.first)], bound - 2e-6)
            << "the conversation moved without need";
      }
      homes[talk] = {choice->backend, marks};
      const double weight = 1 + static_cast<double>(prompt.bytes) / (32 << 10);
      load[chosen] += weight;
      running.push_back({*std::move(choice), weight});
    }
    running.clear();
    for (int i = 0; i < count; ++i) EXPECT_EQ(balancer.StateOf(i).running, 0);
  }
}

}  // namespace
}  // namespace numoe::router
