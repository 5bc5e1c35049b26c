// Tests how a layer of experts is divided into pieces of work.
#include "coordinator/execution/device/cuda/kernels/experts.h"
#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

TEST(ExpertsPlanTest, ThePlanFollowsTheLikelyRows) {
  ExpertsShape shape{.slot = {DeviceFormat::kInt4, DeviceFormat::kInt4, 7168, 2048},
                     .rows = 1,
                     .k = 8,
                     .experts = 384,
                     .slots = 96};
  EXPECT_EQ(shape.slot.bytes(), size_t{3} * 7168 * 2048 / 16 * 9);
  ExpertsPlan plan = PlanExperts(shape);
  EXPECT_EQ(plan.piece_rows, 8);
  EXPECT_EQ(plan.work_max, 9);
  EXPECT_GE(plan.up.row_blocks * plan.up.splits * 2, 2 * 132);
  shape.rows = 8192;
  plan = PlanExperts(shape);
  EXPECT_EQ(plan.piece_rows, 128);
  EXPECT_EQ(plan.up.splits, 1);
  EXPECT_EQ(plan.up.tokens(), plan.down.tokens());
  EXPECT_EQ(plan.partial_bytes(), 0u);
}

}  // namespace
}  // namespace numoe::execution::cuda
