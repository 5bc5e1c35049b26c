// Tests how products are divided: few tokens fill the card by splits, many by tiles; `exact` plans depend
// only on the matrices.
#include "coordinator/execution/device/cuda/kernels/dense_plan.h"

#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

GemmShape Shape(int rows, int cols, int tokens) {
  return {.panels = {PanelCount(rows, false)}, .cols = cols, .tokens = tokens};
}

TEST(DensePlanTest, FewTokensOfASmallMatrixAreSplit) {
  const GemmPlan plan = PlanGemm(Shape(7168, 2048, 1));
  EXPECT_EQ(Describe(plan), "8 tokens x 128 outputs, 8 splits, 56 x 1 blocks");
  EXPECT_GE(plan.row_blocks * plan.splits, 3 * 132);
  EXPECT_EQ(plan.arrivals(), 56);
  EXPECT_EQ(plan.partial_bytes(), 56u * 8 * 8 * 128 * 4);
}

TEST(DensePlanTest, ALargeMatrixFillsTheCardByItself) {
  const GemmPlan plan = PlanGemm(Shape(163840, 7168, 4));
  EXPECT_EQ(plan.splits, 1);
  EXPECT_EQ(plan.partial_bytes(), 0u);
  EXPECT_EQ(plan.arrivals(), 0);
}

TEST(DensePlanTest, SplitsAreNeverShorterThanAPipeline) {
  for (const int cols : {8, 64, 256, 576, 7168}) {
    const GemmPlan plan = PlanGemm(Shape(32, cols, 1));
    EXPECT_TRUE(plan.splits == 1 || StepCount(cols) / plan.splits >= kSplitStepsMin) << cols;
    EXPECT_LE(plan.splits, kGemmSplitsMax);
  }
}

TEST(DensePlanTest, TilesGrowWithTheTokens) {
  EXPECT_EQ(PlanGemm(Shape(2048, 7168, 8)).token_tiles, 1);
  EXPECT_EQ(PlanGemm(Shape(2048, 7168, 9)).token_tiles, 2);
  EXPECT_EQ(PlanGemm(Shape(2048, 7168, 64)).token_tiles, 8);
  const GemmPlan many = PlanGemm(Shape(7168, 7168, 4096));
  EXPECT_EQ(Describe(many), "128 tokens x 256 outputs, 1 splits, 28 x 32 blocks");
  EXPECT_EQ(PlanGemm(Shape(7168, 7168, 128)).splits, 132 / 28);
}

TEST(DensePlanTest, ExactSplitsDependOnTheMatrixAlone) {
  GemmShape shape = Shape(7168, 2048, 1);
  shape.exact = true;
  const int splits = PlanGemm(shape).splits;
  for (const int tokens : {2, 16, 100, 5000}) {
    shape.tokens = tokens;
    const GemmPlan plan = PlanGemm(shape);
    EXPECT_EQ(plan.splits, splits) << tokens;
    EXPECT_LE(plan.partial_bytes(), kPartialBytesMax) << tokens;
    EXPECT_GE(plan.pieces_per_launch, 1);
  }
}

TEST(DensePlanTest, TheLibraryComputesManyTokensIfItIsFaster) {
  EXPECT_EQ(ChooseDenseKernel(8192, 90, false), DenseKernel::kExpand);
  EXPECT_EQ(ChooseDenseKernel(kExpandTokensMin - 1, 90, false), DenseKernel::kTiles);
  EXPECT_EQ(ChooseDenseKernel(8192, 80, false), DenseKernel::kTiles);
  EXPECT_EQ(ChooseDenseKernel(8192, 90, true), DenseKernel::kTiles);
}

TEST(DensePlanTest, AListOfWorkIsPlannedForItsGreatestLength) {
  GemmShape shape = Shape(4096, 7168, 1);
  shape.work_max = 200000;
  shape.work_likely = 8;
  const GemmPlan plan = PlanGemm(shape);
  EXPECT_EQ(plan.pieces, 200000);
  EXPECT_LE(plan.pieces_per_launch, kGridRowsMax);
  EXPECT_EQ(plan.splits, 2);
}

}  // namespace
}  // namespace numoe::execution::cuda
