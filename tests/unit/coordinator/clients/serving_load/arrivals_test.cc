#include "coordinator/clients/serving_load/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace numoe::clients {
namespace {

// Returns the mean and the coefficient of variation of the gaps.
std::pair<double, double> Gaps(const std::vector<double>& arrivals) {
  const auto count = static_cast<double>(arrivals.size() - 1);
  const double mean = arrivals.back() / count;
  double squares = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) squares += std::pow(arrivals[i] - arrivals[i - 1] - mean, 2);
  return {mean, std::sqrt(squares / count) / mean};
}

TEST(Arrivals, InfiniteRateIsAllAtOnce) {
  EXPECT_EQ(PlanArrivals(3, {}), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(PlanArrivals(0, {}).empty());
}

TEST(Arrivals, PoissonAtTheRequestedRate) {
  const auto arrivals = PlanArrivals(100'000, {.request_rate = 50});
  EXPECT_EQ(arrivals[0], 0);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  const auto [mean, variation] = Gaps(arrivals);
  EXPECT_NEAR(mean, 0.02, 0.0005);
  EXPECT_NEAR(variation, 1, 0.02) << "exponential gaps";
}

TEST(Arrivals, BurstinessKeepsTheRateAndChangesTheSpread) {
  for (const double burstiness : {0.25, 4.0, 100.0}) {
    const auto [mean, variation] = Gaps(PlanArrivals(100'000, {.request_rate = 8, .burstiness = burstiness}));
    EXPECT_NEAR(mean, 0.125, 0.005);
    EXPECT_NEAR(variation, 1 / std::sqrt(burstiness), 0.03 / std::sqrt(burstiness));
  }
}

TEST(Arrivals, TheSeedDeterminesTheTimes) {
  const ArrivalOptions options{.request_rate = 3, .seed = 5};
  EXPECT_EQ(PlanArrivals(100, options), PlanArrivals(100, options));
  EXPECT_NE(PlanArrivals(100, options), PlanArrivals(100, {.request_rate = 3, .seed = 6}));
}

}  // namespace
}  // namespace numoe::clients
