// Tests how prompts are divided into passes and tasks.
#include <map>
#include <random>

#include "coordinator/execution/device/cuda/kernels/attention_prefill.h"
#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

// For every division, a row attends to every position up to its own exactly once, its first task is marked as
// the first and its last one as the last, and a pass contains a row at most once.
TEST(PrefillPlanTest, PassesCoverEveryRow) {
  std::mt19937 random(23);
  for (int round = 0; round < 100; ++round) {
    std::vector<PrefillRun> runs;
    int row = 0;
    for (int s = 0; s < 1 + round % 4; ++s) {
      const int rows = 1 + static_cast<int>(random() % 300);
      runs.push_back({.row = row, .rows = rows, .sequence = s, .position = static_cast<int>(random() % 500)});
      row += rows + static_cast<int>(random() % 3);
    }
    const int key_rows_max = round % 5 == 0 ? 0 : 50 + static_cast<int>(random() % 700);
    std::map<int, int> seen;  // positions by row
    std::map<int, bool> finished;
    for (const PrefillPass& pass : PlanPrefill(runs, key_rows_max)) {
      std::map<int, int> in_pass;
      ASSERT_LE(pass.key_rows, key_rows_max);
      for (const PrefillTask& task : pass.tasks) {
        ASSERT_LE(task.rows, kPrefillTaskRows);
        for (int r = 0; r < task.rows; ++r) {
          const int at = task.row + r;
          ASSERT_EQ(++in_pass[at], 1);
          ASSERT_EQ(task.first != 0, seen[at] == 0 && !finished.count(at));
          ASSERT_FALSE(finished[at]);
          // The kernel attends to keys up to the row's own position.
          seen[at] += std::max(0, std::min(task.key_end, task.position + r + 1) - task.key_begin);
          finished[at] = task.last != 0;
        }
      }
    }
    for (const PrefillRun& run : runs) {
      for (int r = 0; r < run.rows; ++r) {
        ASSERT_EQ(seen[run.row + r], run.position + r + 1);
        ASSERT_TRUE(finished[run.row + r]);
      }
    }
  }
}

TEST(PrefillPlanTest, ARunIsExpandedIfThatNeedsFewerMultiplications) {
  EXPECT_FALSE(ExpandsLatents({.rows = 1, .position = 100000}, {}));
  EXPECT_FALSE(ExpandsLatents({.rows = 31, .position = 0}, {}));
  EXPECT_TRUE(ExpandsLatents({.rows = 4096, .position = 0}, {}));
  EXPECT_FALSE(ExpandsLatents({.rows = 64, .position = 100000}, {}));
  EXPECT_TRUE(ExpandsLatents({.rows = 1024, .position = 100000}, {}));
}

}  // namespace
}  // namespace numoe::execution::cuda
