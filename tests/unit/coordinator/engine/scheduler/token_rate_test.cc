// The rate of tokens per second: it is measured over whole windows, and 0 while no sequence runs.
#include "coordinator/engine/scheduler/token_rate.h"

#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

TEST(TokenRateTest, TheRateIsThatOfTheLastWindow) {
  TokenRate rate;
  const TokenRate::Time begin{};
  const auto after = [&](int ms) { return begin + std::chrono::milliseconds(ms); };
  EXPECT_EQ(rate.Measure(10, after(0), false), 0);
  EXPECT_EQ(rate.Measure(60, after(500), false), 0) << "the window is not over";
  EXPECT_EQ(rate.Measure(110, after(1000), false), 100);
  EXPECT_EQ(rate.Measure(111, after(1500), false), 100);
  EXPECT_EQ(rate.Measure(170, after(3000), false), 30);
}

TEST(TokenRateTest, TheRateIsZeroWhileNothingRuns) {
  TokenRate rate;
  const TokenRate::Time begin{};
  rate.Measure(0, begin, false);
  EXPECT_EQ(rate.Measure(50, begin + std::chrono::seconds(1), false), 50);
  EXPECT_EQ(rate.Measure(50, begin + std::chrono::seconds(2), true), 0);
  EXPECT_EQ(rate.Measure(50, begin + std::chrono::seconds(60), false), 0) << "a new window has begun";
  EXPECT_EQ(rate.Measure(70, begin + std::chrono::seconds(61), false), 20) << "the pause does not count";
}

}  // namespace
}  // namespace numoe::engine
