// The plan of a step on a GPU: every token is in one part of the layers, one kernel computes its attention,
// and the rows of each half are padded separately.
#include "coordinator/execution/device/cuda/step_frame.h"

#include <random>
#include <set>

#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

constexpr StepBounds kBounds{.rows = 64, .sequences = 8, .blocks_per_sequence = 16};

// Returns a layout with `pieces` tokens of one sequence after another, divided at `second_half`.
StepLayout FrameLayout(const std::vector<int>& pieces, int second_half) {
  StepLayout layout{.blocks_per_sequence_max = 16};
  layout.second_half = second_half;
  for (size_t s = 0; s < pieces.size(); ++s) {
    layout.block_tables.insert(layout.block_tables.end(), 16, 0);
    for (int t = 0; t < pieces[s]; ++t) {
      layout.tokens.push_back(1);
      layout.sequences.push_back(static_cast<int32_t>(s));
      layout.positions.push_back(t);
    }
  }
  return layout;
}

bool LongRun(const PrefillRun& run) { return run.rows >= 4; }

TEST(StepFrameTest, AWholeStepHasOnePart) {
  const StepLayout layout = FrameLayout({1, 6, 1}, 0);
  const StepFrame frame = PlanFrame(layout, BucketFor(layout, kBounds), LongRun, 0);
  ASSERT_EQ(frame.layer_rows.size(), 1u);
  EXPECT_EQ(frame.layer_rows[0].count, frame.bucket.rows);
  EXPECT_GE(frame.bucket.rows, 8);
  const PartRows& part = frame.part(frame.layer_rows[0]);
  EXPECT_EQ(part.tokens, 8);
  EXPECT_EQ(part.decode_rows, 2);
  EXPECT_EQ(part.pass_end - part.pass_begin, 1u);
  EXPECT_FALSE(Describe(frame).empty());
}

// Random steps, divided anywhere: tokens, decode rows and prefill rows add up, and the rows of parts do not
// overlap.
TEST(StepFrameTest, EveryTokenIsInOnePartAndAttendsByOneKernel) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> pieces;
    int tokens = 0;
    for (int s = 0; s < 6; ++s) {
      pieces.push_back(1 + static_cast<int>(random() % 8));
      tokens += pieces.back();
    }
    const int cut =
        random() % 3 == 0 ? 0 : 1 + static_cast<int>(random() % static_cast<unsigned>(tokens - 1));
    const StepLayout layout = FrameLayout(pieces, cut);
    const StepFrame frame = PlanFrame(layout, BucketFor(layout, kBounds), LongRun, /*key_rows_max=*/24);
    SCOPED_TRACE(Describe(frame));
    ASSERT_EQ(frame.halves(), cut > 0);
    ASSERT_EQ(frame.layer_rows.size(), cut > 0 ? 2u : 1u);
    int seen = 0, next_row = 0, attended = 0;
    size_t next_pass = 0;
    for (const Rows& rows : frame.layer_rows) {
      const PartRows& part = frame.part(rows);
      EXPECT_EQ(rows.first, next_row);
      EXPECT_GE(rows.count, part.tokens);
      EXPECT_EQ(part.pass_begin, next_pass);
      next_row += rows.count;
      next_pass = part.pass_end;
      seen += part.tokens;
      std::set<int> prefilled;
      for (size_t pass = part.pass_begin; pass < part.pass_end; ++pass) {
        for (const PrefillTask& task : frame.passes[pass].tasks) {
          for (int row = task.row; row < task.row + task.rows; ++row) prefilled.insert(row);
          EXPECT_LE(task.row + task.rows, part.tokens) << "rows must be counted from the part's first";
        }
      }
      attended += part.decode_rows + static_cast<int>(prefilled.size());
    }
    EXPECT_EQ(next_row, frame.bucket.rows);
    EXPECT_EQ(next_pass, frame.passes.size());
    EXPECT_EQ(seen, tokens);
    EXPECT_EQ(attended, tokens);
  }
}

// The part of a run in one half may be short, but its kernel is that of the whole run.
TEST(StepFrameTest, ADividedRunKeepsItsKernel) {
  const StepLayout layout = FrameLayout({6}, 5);
  const StepFrame frame = PlanFrame(layout, BucketFor(layout, kBounds), LongRun, 0);
  EXPECT_EQ(frame.parts[1].decode_rows, 0);
  EXPECT_EQ(frame.parts[2].decode_rows, 0) << "the row is a part of a run of six";
}

TEST(StepFrameDeathTest, RowsOfAnotherStepAreRejected) {
  const StepLayout layout = FrameLayout({6}, 0);
  const StepFrame frame = PlanFrame(layout, BucketFor(layout, kBounds), LongRun, 0);
  EXPECT_DEATH((void)frame.part({RowSet::kFirstHalf, 0, 3}), "another step");
  EXPECT_DEATH((void)frame.part({RowSet::kLogits, 0, 3}), "do not belong to the layers");
}

}  // namespace
}  // namespace numoe::execution::cuda
