// Tests the division of a step into decode rows and prefill runs: every row is in exactly one of them, runs
// are consecutive positions of one sequence, and as long as possible.
#include "coordinator/execution/device/cuda/attend_split.h"

#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

StepLayout Layout(const std::vector<std::pair<int, int>>& rows) {  // sequence, position
  StepLayout layout;
  for (const auto& [sequence, position] : rows) {
    layout.tokens.push_back(1);
    layout.sequences.push_back(sequence);
    layout.positions.push_back(position);
  }
  return layout;
}

TEST(AttendSplitTest, LongRunsArePrefillAndTheRestDecodes) {
  const StepLayout layout = Layout({{0, 9}, {1, 4}, {1, 5}, {1, 6}, {2, 0}, {2, 1}, {3, 2}});
  const AttendSplit split = SplitStep(layout, [](const PrefillRun& run) { return run.rows >= 3; });
  ASSERT_EQ(split.runs.size(), 1u);
  EXPECT_EQ(split.runs[0].row, 1);
  EXPECT_EQ(split.runs[0].rows, 3);
  EXPECT_EQ(split.runs[0].sequence, 1);
  EXPECT_EQ(split.runs[0].position, 4);
  EXPECT_EQ(split.decode_positions, (std::vector<int32_t>{9, -1, -1, -1, 0, 1, 2}));
}

TEST(AttendSplitTest, AGapOrAnotherSequenceEndsARun) {
  const StepLayout layout = Layout({{0, 0}, {0, 1}, {0, 5}, {0, 6}, {1, 7}, {1, 8}});
  const AttendSplit split = SplitStep(layout, [](const PrefillRun&) { return true; });
  ASSERT_EQ(split.runs.size(), 3u);
  for (const PrefillRun& run : split.runs) EXPECT_EQ(run.rows, 2);
  EXPECT_EQ(split.decode_positions, std::vector<int32_t>(6, -1));
}

// Rows of a half are counted from its first row; a run that is divided keeps its positions.
TEST(AttendSplitTest, RunsOfAHalf) {
  const std::vector<PrefillRun> runs = {{.row = 1, .rows = 4, .sequence = 2, .position = 30},
                                        {.row = 6, .rows = 2, .sequence = 5, .position = 0}};
  const auto first = RunsIn(runs, {0, 3}), second = RunsIn(runs, {3, 8});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].row, 1);
  EXPECT_EQ(first[0].rows, 2);
  EXPECT_EQ(first[0].position, 30);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].row, 0);
  EXPECT_EQ(second[0].rows, 2);
  EXPECT_EQ(second[0].sequence, 2);
  EXPECT_EQ(second[0].position, 32);
  EXPECT_EQ(second[1].row, 3);
  EXPECT_EQ(second[1].rows, 2);
  EXPECT_EQ(second[1].position, 0);
  EXPECT_TRUE(RunsIn(runs, {5, 6}).empty());
}

TEST(AttendSplitTest, NoRunIsPrefillIfNoneIsAllowed) {
  const StepLayout layout = Layout({{0, 0}, {0, 1}});
  const AttendSplit split = SplitStep(layout, [](const PrefillRun&) { return false; });
  EXPECT_TRUE(split.runs.empty());
  EXPECT_EQ(split.decode_positions, layout.positions);
}

}  // namespace
}  // namespace numoe::execution::cuda
