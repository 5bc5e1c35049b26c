// Shares of computed tokens: they are proportional to weights, idle time earns no credit, debts are paid, and
// no tenant starves.
#include "coordinator/engine/scheduler/fair_shares.h"

#include <algorithm>
#include <random>

#include "coordinator/engine/scheduler/scheduler_limits.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using Weights = std::map<int, int>;

// Returns the tenant whose turn it is.
int First(const FairShares& shares, const Weights& weights) {
  return std::min_element(weights.begin(), weights.end(),
                          [&](const auto& a, const auto& b) {
                            return std::pair(shares.Round(a.first), a.first) <
                                   std::pair(shares.Round(b.first), b.first);
                          })
      ->first;
}

// Charges chunks of random sizes in `turns` turns, and returns how many tokens each tenant got.
std::map<int, int64_t> Serve(FairShares& shares, const Weights& weights, int turns) {
  std::mt19937 random(41);
  std::map<int, int64_t> got;
  for (int i = 0; i < turns; ++i) {
    shares.SetActive(weights);
    const int tenant = First(shares, weights);
    const auto tokens = static_cast<int64_t>(1 + random() % 700);
    shares.Charge(tenant, weights.at(tenant), tokens);
    got[tenant] += tokens;
  }
  return got;
}

TEST(FairSharesTest, SharesAreProportionalToWeights) {
  FairShares shares;
  const Weights weights = {{1, 3}, {2, 1}, {3, 2}};
  const auto got = Serve(shares, weights, 6'000);
  const auto all = static_cast<double>(got.at(1) + got.at(2) + got.at(3));
  for (const auto& [tenant, weight] : weights)
    EXPECT_NEAR(static_cast<double>(got.at(tenant)) / all, weight / 6.0, 0.01) << "tenant " << tenant;
}

TEST(FairSharesTest, IdleTimeEarnsNoCredit) {
  FairShares shares;
  Serve(shares, {{1, 1}}, 1'000);
  const auto got = Serve(shares, {{1, 1}, {2, 1}}, 1'000);
  EXPECT_NEAR(static_cast<double>(got.at(1)) / static_cast<double>(got.at(2)), 1, 0.02);
}

TEST(FairSharesTest, DebtsOutlastAPauseWhileOthersWait) {
  FairShares shares;
  shares.SetActive({{1, 1}, {2, 1}});
  shares.Charge(1, 1, 10 * limits::kFairQuantumTokens);
  shares.SetActive({{2, 1}});
  shares.SetActive({{1, 1}, {2, 1}});
  EXPECT_EQ(shares.Round(1) - shares.Round(2), 10);
  shares.SetActive({});
  shares.SetActive({{1, 1}, {2, 1}});
  EXPECT_EQ(shares.Round(1), shares.Round(2)) << "no tenant waited for the tokens that it used";
}

TEST(FairSharesTest, TokensAreNotChargedWhileNoTenantIsActive) {
  FairShares shares;
  shares.SetActive({});
  shares.Charge(1, 1, 1'000'000);
  shares.SetActive({{1, 1}, {2, 1}});
  EXPECT_EQ(shares.Round(1), shares.Round(2));
  shares.Charge(3, 1, 1'000'000);  // a tenant that only decodes is charged while others wait
  shares.SetActive({{1, 1}, {2, 1}, {3, 1}});
  EXPECT_GT(shares.Round(3), shares.Round(1));
}

// A tenant that repeatedly becomes active for few tokens must not always be first.
TEST(FairSharesTest, NoTenantStarves) {
  FairShares shares;
  int64_t taken = 0;
  for (int i = 0; i < 100; ++i) {
    shares.SetActive({{1, 1}, {2, 1}});
    if (First(shares, {{1, 1}, {2, 1}}) == 2) break;
    shares.Charge(1, 1, 5);
    taken += 5;
    shares.SetActive({{2, 1}});
  }
  EXPECT_LE(taken, limits::kFairQuantumTokens + 5);
}

TEST(FairSharesTest, AWeightMayChange) {
  FairShares shares;
  Serve(shares, {{1, 1'000}, {2, 1}}, 500);
  shares.SetActive({{1, 1}, {2, 1}});
  EXPECT_GE(shares.RemainingQuantum(1), 1);
  const auto got = Serve(shares, {{1, 1}, {2, 1}}, 20'000);
  EXPECT_NEAR(static_cast<double>(got.at(1)) / static_cast<double>(got.at(2)), 1, 0.2);
}

}  // namespace
}  // namespace numoe::engine
