// Every output is in one task of whole units, and tasks are as large as the rule says.
#include "common/linear/row_cutter.h"

#include <algorithm>
#include <random>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;

struct Matrix {
  int rows = 0;
  CutUnit unit;
  size_t units() const { return static_cast<size_t>((rows + unit.rows - 1) / unit.rows); }
};

size_t CostOf(const std::vector<Matrix>& matrices) {
  size_t cost = 0;
  for (const Matrix& m : matrices) cost += m.units() * m.unit.cost;
  return cost;
}

std::vector<int> Ends(const CutLimits& limits, const Matrix& matrix, int threads) {
  RowCutter cutter(limits, CostOf({matrix}), threads);
  std::vector<int> ends;
  for (int begin = 0; begin < matrix.rows; begin = ends.back())
    ends.push_back(cutter.NextEnd(begin, matrix.rows, matrix.unit));
  return ends;
}

TEST(RowCutterTest, TasksBecomeSmallerTowardsTheEnd) {
  // Two threads: a quarter of what is left, in whole panels, and at most 4 of these.
  EXPECT_THAT(Ends({.task_cost_max = 40}, {.rows = 32 * 20, .unit = {32, 10}}, 2),
              ElementsAre(128, 256, 352, 416, 448, 480, 512, 544, 576, 608, 640));
}

TEST(RowCutterTest, TheLastTaskEndsWithTheMatrix) {
  EXPECT_THAT(Ends({.task_cost_max = 20}, {.rows = 100, .unit = {32, 10}}, 1), ElementsAre(64, 100));
  EXPECT_THAT(Ends({.task_cost_max = 20}, {.rows = 1, .unit = {32, 10}}, 8), ElementsAre(1));
}

TEST(RowCutterTest, OneThreadTakesTheLargestTasks) {
  EXPECT_THAT(Ends({.task_cost_max = 40}, {.rows = 32 * 10, .unit = {32, 10}}, 1),
              ElementsAre(128, 256, 320));
}

TEST(RowCutterTest, SmallTasksAreNotMadeSmallerUnlessThreadsWouldHaveNone) {
  const Matrix matrix{.rows = 32 * 16, .unit = {32, 10}};
  const CutLimits limits{.task_cost_max = 80, .task_cost_min = 40};
  EXPECT_THAT(Ends(limits, matrix, 2), ElementsAre(128, 256, 384, 512));
  EXPECT_EQ(Ends(limits, matrix, 8).size(), 8u);    // 20 each
  EXPECT_EQ(Ends(limits, matrix, 50).size(), 16u);  // whole units
  // A minimum above the maximum counts as the maximum.
  EXPECT_THAT(Ends({.task_cost_max = 80, .task_cost_min = 1000}, matrix, 2), ElementsAre(256, 512));
}

TEST(RowCutterTest, CutsEveryOutputOnceForAnyMatrices) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 500; ++round) {
    std::vector<Matrix> matrices;
    for (int i = 0; i <= below(5); ++i)
      matrices.push_back({1 + below(5000), {kPanelRows * (1 + below(2)), 1 + random() % 1000}});
    const CutLimits limits{.task_cost_max = 1 + random() % 5000, .task_cost_min = random() % 3000};
    const int threads = 1 + below(64);
    SCOPED_TRACE(fmt::format("round {}, {} matrices, tasks of {} to {}, {} threads", round, matrices.size(),
                             limits.task_cost_min, limits.task_cost_max, threads));
    size_t left = CostOf(matrices);
    const size_t share = left / static_cast<size_t>(threads);
    RowCutter cutter(limits, left, threads);
    std::vector<int> done(matrices.size());
    for (bool more = true; more;) {  // the matrices in turn
      more = false;
      for (size_t m = 0; m < matrices.size(); ++m) {
        const auto& [rows, unit] = matrices[m];
        if (done[m] == rows) continue;
        const int end = cutter.NextEnd(done[m], rows, unit);
        ASSERT_GT(end, done[m]);
        ASSERT_LE(end, rows);
        ASSERT_TRUE(end % unit.rows == 0 || end == rows) << end;
        const size_t units = static_cast<size_t>((end - done[m] + unit.rows - 1) / unit.rows);
        const size_t smallest = std::min({limits.task_cost_min, limits.task_cost_max, share});
        const size_t most =
            std::min(limits.task_cost_max,
                     threads == 1 ? left : std::max(smallest, left / (2 * static_cast<size_t>(threads))));
        EXPECT_LE(units * unit.cost, std::max(most, unit.cost));
        EXPECT_TRUE(end == rows || (units + 1) * unit.cost > most) << "a larger task was allowed";
        left -= units * unit.cost;
        done[m] = end;
        more = true;
      }
    }
    EXPECT_EQ(left, 0u);
  }
}

}  // namespace
}  // namespace numoe
