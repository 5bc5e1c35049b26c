// Several tenants, in virtual time: many requests of one tenant do not delay a request of another, shares are
// proportional to weights, and answers do not depend on other tenants.
#include <algorithm>
#include <climits>
#include <random>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/engine/scheduler/simulation.h"

namespace numoe::engine {
namespace {

constexpr int kPromptTokens = 20;
constexpr int kAnswerTokens = 30;

SimulationOptions Options() {
  return {.engine = {.limits = {.sequences_max = 8, .step_tokens = 64, .block_tokens = 4},
                     .kv_blocks = 4'000,
                     .max_model_len = 10'000,
                     .vocab = ScriptedModel::kVocab}};
}

class TenantsTest : public ::testing::Test {
 protected:
  SimulatedRequest Ask(Tenant tenant, double at_s = 0, int priority = 0, int prompt_tokens = kPromptTokens) {
    SimulatedRequest r{.at_s = at_s,
                       .sampling = {.temperature = 0, .max_tokens = kAnswerTokens},
                       .tenant = std::move(tenant),
                       .priority = priority};
    for (int i = 0; i < prompt_tokens; ++i) r.prompt.push_back(static_cast<TokenId>(random_() % 90));
    return r;
  }
  std::vector<SimulatedRequest> Many(int count, const Tenant& tenant, int priority = 0) {
    std::vector<SimulatedRequest> requests;
    for (int i = 0; i < count; ++i) requests.push_back(Ask(tenant, 0, priority));
    return requests;
  }
  static int EndedBefore(const std::vector<SimulatedAnswer>& answers, double end_s) {
    return static_cast<int>(std::count_if(answers.begin(), answers.end(),
                                          [&](const SimulatedAnswer& a) { return a.end_s < end_s; }));
  }

  std::mt19937 random_{51};
};

TEST_F(TenantsTest, AHundredPromptsOfOneTenantDoNotDelayOneOfAnother) {
  for (const int priority : {0, INT_MIN}) {  // priority of the hundred
    std::vector<SimulatedRequest> requests = Many(100, {.id = 1}, priority);
    requests.push_back(Ask({.id = 2}, 0.01));
    const auto answers = Simulation(Options()).Run(requests);
    for (const SimulatedAnswer& answer : answers) EXPECT_EQ(answer.finish, FinishReason::kLength);
    EXPECT_LE(EndedBefore(answers, answers.back().end_s), 24) << "at most three times as many as run at once";
    requests.back().tenant.id = 1;
    requests.back().priority = INT_MAX;
    const auto alike = Simulation(Options()).Run(requests);
    EXPECT_GE(EndedBefore(alike, alike.back().end_s), 90)
        << "requests of the same tenant wait for each other";
    for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].tokens, alike[i].tokens) << i;
  }
}

TEST_F(TenantsTest, TokensAreSharedByWeight) {
  const Tenant heavy{.id = 1, .weight = 3}, light{.id = 2};
  std::vector<SimulatedRequest> requests = Many(300, light);
  for (SimulatedRequest& r : Many(300, heavy)) requests.push_back(std::move(r));
  const auto answers = Simulation(Options()).Run(requests);
  std::vector<std::pair<double, int>> tokens;  // (time, tenant)
  for (size_t i = 0; i < answers.size(); ++i) {
    for (const double time_s : answers[i].times_s) tokens.emplace_back(time_s, requests[i].tenant.id);
  }
  std::sort(tokens.begin(), tokens.end());
  const auto half = tokens.begin() + static_cast<int64_t>(tokens.size() / 2);  // both have some left
  const auto of = [&](int tenant) {
    return static_cast<double>(
        std::count_if(tokens.begin(), half, [&](const auto& t) { return t.second == tenant; }));
  };
  EXPECT_GT(of(1) / of(2), 2.5);
  EXPECT_LT(of(1) / of(2), 3.6);
}

TEST_F(TenantsTest, ALongPromptSharesItsStepsWithAShortOne) {
  const auto first_token_s = [&](int tenant) {
    const auto answers = Simulation(Options()).Run({Ask({.id = 1}, 0, 0, 4'000), Ask({.id = tenant}, 0.2)});
    return std::pair(answers[0].times_s[0], answers[1].times_s[0]);
  };
  const auto [alike_long, alike_short] = first_token_s(1);
  EXPECT_GE(alike_short, alike_long) << "a tenant's prompts are computed in order";
  const auto [own_long, own_short] = first_token_s(2);
  EXPECT_LT(own_short, own_long / 4);
}

// One tenant has taken all slots with very long answers.
TEST_F(TenantsTest, ATenantWithoutARunningSequenceGetsASlotOfTheTenantThatHasAll) {
  std::vector<SimulatedRequest> requests = Many(20, {.id = 1});
  for (SimulatedRequest& r : requests)
    r.sampling.max_tokens = 1'500;  // eight of them take more than a minute
  for (int i = 0; i < 3; ++i) requests.push_back(Ask({.id = 2 + i}, 0.5));
  Simulation simulation(Options());
  const auto answers = simulation.Run(requests);
  for (size_t i = 20; i < 23; ++i) {
    EXPECT_EQ(answers[i].finish, FinishReason::kLength);
    EXPECT_LT(answers[i].end_s, 0.5 + limits::kFairWaitSeconds + 5) << i;
  }
  EXPECT_GE(simulation.Stats().preemptions, 1u);
  EXPECT_LE(simulation.Stats().preemptions, 6u) << "each tenant gets a slot once, and then finds it";
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(answers[i].tokens.size(), 1'500u) << "preemption loses no token";
}

// One tenant has taken all slots, and another sends one request after another.
TEST_F(TenantsTest, ATenantThatSendsOneRequestAfterAnotherWaitsOnlyOnce) {
  std::vector<SimulatedRequest> requests = Many(20, {.id = 1});
  for (SimulatedRequest& r : requests) r.sampling.max_tokens = 1'500;
  std::vector<double> took_s;
  for (double at_s = 5;
       took_s.size() < 5;) {  // each request is sent when the one before it has been answered
    requests.push_back(Ask({.id = 2}, at_s));
    const double end_s = Simulation(Options()).Run(requests).back().end_s;
    took_s.push_back(end_s - at_s);
    at_s = end_s + 0.1;
  }
  EXPECT_GT(took_s[0], limits::kFairWaitSeconds)
      << "the first request must have waited, or this shows nothing";
  for (size_t i = 1; i < took_s.size(); ++i)
    EXPECT_LT(took_s[i], took_s[0] - 0.9 * limits::kFairWaitSeconds) << i;
}

// Results of workers with other numeric formats are not used any more: neither running sequences nor the
// prefix cache keep them.
TEST_F(TenantsTest, AfterAChangeOfNumericFormatsEverythingIsComputedAgain) {
  std::vector<SimulatedRequest> requests = Many(4, {.id = 1});
  requests.push_back(requests[0]);
  requests.back().at_s = 60;
  SimulationOptions options = Options();
  Simulation same(options);
  const auto before = same.Run(requests);
  EXPECT_GT(same.Stats().prefix_hit_tokens, 0u);
  EXPECT_EQ(same.Stats().preemptions, 0u);
  options.changes_s = {0.5};
  Simulation changing(options);
  const auto after = changing.Run(requests);
  EXPECT_EQ(changing.Stats().prefix_hit_tokens, same.Stats().prefix_hit_tokens)
      << "the hits are in blocks that were computed after the change";
  EXPECT_EQ(changing.Stats().preemptions, 4u);
  options.changes_s = {50};
  Simulation changed(options);
  (void)changed.Run(requests);
  EXPECT_EQ(changed.Stats().prefix_hit_tokens, 0u);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(before[i].tokens, after[i].tokens) << i;
}

TEST_F(TenantsTest, CancelledRequestsInTheQueueDoNotUseTurns) {
  std::vector<SimulatedRequest> requests = Many(100, {.id = 1});
  for (size_t i = 10; i < 100; ++i) requests[i].cancel_at_s = 0.5;
  for (int i = 0; i < 20; ++i) requests.push_back(Ask({.id = 2 + i % 3}, 0.3));
  const auto answers = Simulation(Options()).Run(requests);
  for (size_t i = 0; i < answers.size(); ++i) {
    const bool left = i >= 10 && i < 100;
    EXPECT_EQ(answers[i].finish, left ? FinishReason::kCancelled : FinishReason::kLength) << i;
  }
}

// The cache is far too small, and one tenant sends most requests, with the highest priority.
TEST_F(TenantsTest, TheTenantWithMostSequencesIsPreemptedWhenBlocksRunOut) {
  SimulationOptions options = Options();
  options.engine.kv_blocks = 60;  // 240 tokens; eight sequences need 400
  options.engine.limits.growth_tokens = 0;
  std::vector<SimulatedRequest> requests = {Ask({.id = 2})};
  for (SimulatedRequest& r : Many(40, {.id = 1}, INT_MIN)) requests.push_back(std::move(r));
  Simulation simulation(options);
  const auto answers = simulation.Run(requests);
  EXPECT_GT(simulation.Stats().preemptions, 5u);
  for (size_t i = 1; i < answers[0].times_s.size(); ++i)
    EXPECT_LT(answers[0].times_s[i] - answers[0].times_s[i - 1], 0.2)
        << "the tenant's only sequence was preempted";
}

}  // namespace
}  // namespace numoe::engine
