// Counts, their decay, and that reading them does not disturb the writer.
#include "expert_worker/experts/expert_statistics.h"

#include <cmath>
#include <numeric>
#include <thread>

#include "expert_worker/experts/experts_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

using std::chrono::microseconds;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr int kLayers = 2;
constexpr int kExperts = 3;
const ExpertStatistics::Clock::time_point kStart{std::chrono::hours(1000)};

ExpertStatistics::Clock::time_point After(double half_lives) {
  return kStart + std::chrono::duration_cast<ExpertStatistics::Clock::duration>(
                      std::chrono::duration<double>(half_lives * limits::kExpertHalfLifeSeconds));
}
std::vector<ExpertGroup> Groups(std::vector<std::pair<ExpertId, int>> rows) {
  std::vector<ExpertGroup> groups;
  for (const auto& [expert, count] : rows)
    groups.push_back({.expert = expert, .row_begin = 0, .rows = count});
  return groups;
}

TEST(ExpertStatisticsTest, CountsRowsAndCallsOfEachExpert) {
  ExpertStatistics statistics(kLayers, kExperts, kStart);
  statistics.Count(1, 4, Groups({{0, 4}, {2, 3}}), microseconds(30), kStart);
  statistics.Count(1, 1, Groups({{2, 1}}), microseconds(30), kStart);
  statistics.Count(0, 5, Groups({{1, 5}}), microseconds(30), kStart);
  const ExpertSnapshot experts = statistics.Experts(kStart);
  EXPECT_EQ(experts.layers, kLayers);
  EXPECT_EQ(experts.experts, kExperts);
  EXPECT_THAT(experts.rows, ElementsAre(0, 5, 0, 4, 0, 4));
  EXPECT_THAT(experts.calls, ElementsAre(0, 1, 0, 1, 0, 2));
  EXPECT_THAT(experts.decayed, ElementsAre(0, 5, 0, 4, 0, 4));
}

TEST(ExpertStatisticsTest, RowsDecayWithTheirAge) {
  ExpertStatistics statistics(1, kExperts, kStart);
  statistics.Count(0, 8, Groups({{0, 8}}), microseconds(1), kStart);
  statistics.Count(0, 8, Groups({{1, 8}}), microseconds(1), After(2));
  statistics.Count(0, 8, Groups({{0, 8}}), microseconds(1), After(3));
  EXPECT_THAT(statistics.Experts(After(3)).decayed, ElementsAre(DoubleNear(9, 1e-9), DoubleNear(4, 1e-9), 0));
  EXPECT_THAT(statistics.Experts(After(13)).decayed,
              ElementsAre(DoubleNear(9.0 / 1024, 1e-12), DoubleNear(4.0 / 1024, 1e-12), 0));
  EXPECT_THAT(statistics.Experts(After(3)).rows, ElementsAre(16, 8, 0)) << "what does not fade";
}

TEST(ExpertStatisticsTest, DecayWorksForMonths) {
  ExpertStatistics statistics(1, kExperts, kStart);
  for (double age = 0; age < 20'000; age += 1)
    statistics.Count(0, 1, Groups({{1, 1}}), microseconds(1), After(age));
  EXPECT_THAT(statistics.Experts(After(19'999)).decayed, ElementsAre(0, DoubleNear(2, 1e-9), 0));
  EXPECT_EQ(statistics.Experts(After(19'999)).rows[1], 20'000u);
  EXPECT_THAT(statistics.Experts(After(30'000)).decayed, ElementsAre(0, 0, 0));
}

TEST(ExpertStatisticsTest, CallsAreCountedBySize) {
  ExpertStatistics statistics(1, kExperts, kStart);
  statistics.Count(0, 1, Groups({{0, 1}}), microseconds(10), kStart);
  statistics.Count(0, 3, Groups({{0, 2}, {1, 3}}), microseconds(11), kStart);
  statistics.Count(0, 8192, Groups({{0, 8192}}), std::chrono::seconds(6), kStart);
  const CallSnapshot calls = statistics.Calls();
  ASSERT_EQ(calls.tokens.counts.size(), ExpertStatistics::SizeBounds().size() + 1);
  EXPECT_EQ(calls.tokens.counts[0], 1u);
  EXPECT_EQ(calls.tokens.counts[2], 1u) << "3 is above 2 and not above 4";
  EXPECT_EQ(calls.tokens.counts[13], 1u);
  EXPECT_EQ(calls.tokens.counts[14], 0u);
  EXPECT_EQ(calls.tokens.sum, 8196);
  EXPECT_EQ(calls.rows.counts[0], 1u);
  EXPECT_EQ(calls.rows.counts[1], 1u);
  EXPECT_EQ(calls.rows.counts[2], 1u);
  EXPECT_EQ(calls.rows.sum, 1 + 2 + 3 + 8192);
  EXPECT_EQ(calls.seconds.counts.front(), 1u) << "10 us is not above 10 us";
  EXPECT_EQ(calls.seconds.counts[1], 1u);
  EXPECT_EQ(calls.seconds.counts.back(), 1u);
  EXPECT_NEAR(calls.seconds.sum, 6.000021, 1e-9);
}

TEST(ExpertStatisticsTest, AnyThreadReadsWhileOneWrites) {
  ExpertStatistics statistics(1, kExperts);
  std::atomic<bool> done = false;
  std::thread reader([&] {
    uint64_t last = 0;
    while (!done.load()) {
      const uint64_t rows = statistics.Experts().rows[2];
      EXPECT_GE(rows, last);
      last = rows;
      EXPECT_LE(statistics.Calls().tokens.sum, 200'000);
    }
  });
  for (int i = 0; i < 100'000; ++i) statistics.Count(0, 2, Groups({{2, 1}}), microseconds(1));
  done.store(true);
  reader.join();
  EXPECT_EQ(statistics.Experts().rows[2], 100'000u);
}

}  // namespace
}  // namespace numoe::worker
