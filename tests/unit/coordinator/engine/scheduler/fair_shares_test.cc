// Turns by tokens: shares are as the weights say, idling saves nothing up, debts are paid, and nobody is
// passed over for ever.
#include "coordinator/engine/scheduler/fair_shares.h"

#include <algorithm>
#include <random>

#include "coordinator/engine/scheduler/scheduler_limits.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using Weights = std::map<int, int>;

// Whose turn it is.
int First(const FairShares& shares, const Weights& weights) {
  return std::min_element(weights.begin(), weights.end(),
                          [&](const auto& a, const auto& b) {
                            return std::pair(shares.RoundOf(a.first), a.first) <
                                   std::pair(shares.RoundOf(b.first), b.first);
                          })
      ->first;
}

// Gives out `turns` pieces of random sizes, and says how much each tenant got.
std::map<int, int64_t> Serve(FairShares& shares, const Weights& weights, int turns) {
  std::mt19937 random(41);
  std::map<int, int64_t> got;
  for (int i = 0; i < turns; ++i) {
    shares.Contend(weights);
    const int tenant = First(shares, weights);
    const auto tokens = static_cast<int64_t>(1 + random() % 700);
    shares.Charge(tenant, weights.at(tenant), tokens);
    got[tenant] += tokens;
  }
  return got;
}

TEST(FairSharesTest, SharesAreAsTheWeightsSay) {
  FairShares shares;
  const Weights weights = {{1, 3}, {2, 1}, {3, 2}};
  const auto got = Serve(shares, weights, 6'000);
  const auto all = static_cast<double>(got.at(1) + got.at(2) + got.at(3));
  for (const auto& [tenant, weight] : weights)
    EXPECT_NEAR(static_cast<double>(got.at(tenant)) / all, weight / 6.0, 0.01) << "tenant " << tenant;
}

TEST(FairSharesTest, WhoWasIdleHasNothingSavedUp) {
  FairShares shares;
  Serve(shares, {{1, 1}}, 1'000);
  const auto got = Serve(shares, {{1, 1}, {2, 1}}, 1'000);
  EXPECT_NEAR(static_cast<double>(got.at(1)) / static_cast<double>(got.at(2)), 1, 0.02);
}

TEST(FairSharesTest, DebtsOutlastAPauseWhileOthersWait) {
  FairShares shares;
  shares.Contend({{1, 1}, {2, 1}});
  shares.Charge(1, 1, 10 * limits::kFairQuantumTokens);
  shares.Contend({{2, 1}});
  shares.Contend({{1, 1}, {2, 1}});
  EXPECT_EQ(shares.RoundOf(1) - shares.RoundOf(2), 10);
  shares.Contend({});
  shares.Contend({{1, 1}, {2, 1}});
  EXPECT_EQ(shares.RoundOf(1), shares.RoundOf(2)) << "nobody waited for what it took";
}

TEST(FairSharesTest, WhatIsComputedWhileNobodyAsksIsFree) {
  FairShares shares;
  shares.Contend({});
  shares.Charge(1, 1, 1'000'000);
  shares.Contend({{1, 1}, {2, 1}});
  EXPECT_EQ(shares.RoundOf(1), shares.RoundOf(2));
  shares.Charge(3, 1, 1'000'000);  // who only decodes pays while others wait
  shares.Contend({{1, 1}, {2, 1}, {3, 1}});
  EXPECT_GT(shares.RoundOf(3), shares.RoundOf(1));
}

// One that asks, leaves and comes back with little each time must not always be the first.
TEST(FairSharesTest, NobodyIsPassedOverForEver) {
  FairShares shares;
  int64_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    shares.Contend({{1, 1}, {2, 1}});
    if (First(shares, {{1, 1}, {2, 1}}) == 2) break;
    shares.Charge(1, 1, 5);
    taken += 5;
    shares.Contend({{2, 1}});
  }
  EXPECT_LE(taken, limits::kFairQuantumTokens + 5);
}

TEST(FairSharesTest, AWeightMayChange) {
  FairShares shares;
  Serve(shares, {{1, 1'000}, {2, 1}}, 500);
  shares.Contend({{1, 1}, {2, 1}});
  EXPECT_GE(shares.LeftOf(1), 1);
  const auto got = Serve(shares, {{1, 1}, {2, 1}}, 20'000);
  EXPECT_NEAR(static_cast<double>(got.at(1)) / static_cast<double>(got.at(2)), 1, 0.2);
}

}  // namespace
}  // namespace numoe::engine
