// Tests the memory that held and fetched experts need on a card.
#include "coordinator/execution/device/cuda/expert_sizes.h"

#include "coordinator/execution/device/cuda/allocation.h"
#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

ExpertSlotSpec Spec(MatrixFormat gate, MatrixFormat up, MatrixFormat down) {
  const auto matrix = [](MatrixFormat format, int64_t rows, int64_t cols) {
    return MatrixView{.format = format,
                      .rows = rows,
                      .cols = cols,
                      .data = {},
                      .scales = {},
                      .scale_dtype = DType::kBF16,
                      .block_rows = 1,
                      .block_cols = 32};
  };
  ExpertSlotSpec spec;
  spec.example = {.gate = matrix(gate, 256, 512), .up = matrix(up, 256, 512), .down = matrix(down, 512, 256)};
  spec.layer_is_moe = {false, true, true, true};
  spec.experts = 10;
  spec.experts_per_token = 4;
  spec.slots = 3;
  return spec;
}

TEST(ExpertSizesTest, GateAndUpShareAFormat) {
  const ExpertSlot same =
      SlotOf(Spec(MatrixFormat::kInt4Group, MatrixFormat::kInt4Group, MatrixFormat::kBF16));
  EXPECT_EQ(same.up_format, DeviceFormat::kInt4);
  EXPECT_EQ(same.down_format, DeviceFormat::kBf16);
  EXPECT_EQ(same.hidden, 512);
  EXPECT_EQ(same.width, 256);
  EXPECT_EQ(SlotOf(Spec(MatrixFormat::kInt4Group, MatrixFormat::kBF16, MatrixFormat::kBF16)).up_format,
            DeviceFormat::kBf16);
}

TEST(ExpertSizesTest, OnlyMoeLayersHaveSlots) {
  const ExpertSlotSpec spec = Spec(MatrixFormat::kBF16, MatrixFormat::kBF16, MatrixFormat::kBF16);
  EXPECT_EQ(SlotOf(spec).bytes(), size_t{3} * 256 * 512 * 2);
  EXPECT_EQ(SlotBytes(spec), 3 * AllocatedBytes(3 * SlotOf(spec).bytes()));
}

TEST(ExpertSizesTest, ScratchIsForAllPairsOfTheLargestStep) {
  const ExpertSlotSpec spec = Spec(MatrixFormat::kBF16, MatrixFormat::kBF16, MatrixFormat::kBF16);
  const ExpertScratch scratch = PlanExpertScratch(spec, 100);
  EXPECT_EQ(scratch.pairs, 100u * 4 * 4);
  EXPECT_EQ(scratch.activations, 100u * 4 * 256 * 2);
  EXPECT_EQ(scratch.outputs, 100u * 4 * 512 * 2);
  EXPECT_GT(PlanExpertScratch(spec, 101).total(), scratch.total());
}

TEST(ExpertSizesTest, WindowsHoldTheFetchedExperts) {
  ExpertSlotSpec spec = Spec(MatrixFormat::kBF16, MatrixFormat::kBF16, MatrixFormat::kBF16);
  EXPECT_EQ(PlanWindowSizes(spec).total(), 0u) << "nothing is fetched";
  spec.window = 4;
  const WindowSizes sizes = PlanWindowSizes(spec);
  EXPECT_EQ(sizes.window, 4 * SlotOf(spec).bytes());
  EXPECT_GE(sizes.stage, 2 * SlotOf(spec).bytes()) << "the workers' bytes may be padded";
  EXPECT_EQ(sizes.tables_max, 3 * 3) << "three windows for ten experts, in three layers";
  EXPECT_EQ(sizes.tables, 9u * 10 * 4);
  EXPECT_EQ(sizes.total(), kWindows * sizes.window + kStages * sizes.stage + sizes.tables);
}

}  // namespace
}  // namespace numoe::execution::cuda
