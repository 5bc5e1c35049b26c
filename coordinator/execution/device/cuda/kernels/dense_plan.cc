#include "coordinator/execution/device/cuda/kernels/dense_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"

namespace numoe::execution::cuda {
namespace {

// The number of blocks per multiprocessor for few tokens. One block would have enough bytes in flight: a
// block of four warps has about 25 to 35 KB of stages, and 3.35 TB/s x 0.7 us / 132 = 18 KB keep an H100's
// memory busy. But a warp's step waits for shared memory and tensor cores several times, which three warps on
// each scheduler hide.
constexpr int kFewBlocks = 3;
constexpr int kFewWarps = 4;
constexpr int kManyWarps = 8;

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

int RowBlocks(const GemmShape& shape, int warps) {
  int blocks = 0;
  for (int i = 0; i < shape.target_count; ++i) blocks += CeilDiv(shape.panels[i], warps);
  return blocks;
}

int Splits(const GemmShape& shape, const GemmPlan& plan) {
  const int most = std::min(kGemmSplitsMax, StepCount(shape.cols) / kSplitStepsMin);
  const bool many = plan.token_tiles == kTokenTilesMax;
  const int likely = shape.exact          ? RowBlocks(shape, kFewWarps) * shape.groups
                     : shape.work_max > 0 ? plan.row_blocks * std::max(1, shape.work_likely)
                                          : plan.row_blocks * plan.pieces;
  const int splits =
      many ? shape.multiprocessors / likely : CeilDiv(kFewBlocks * shape.multiprocessors, likely);
  return std::max(1, std::min(splits, most));
}

}  // namespace

GemmPlan PlanGemm(const GemmShape& shape) {
  NUMOE_CHECK(shape.target_count >= 1 && shape.target_count <= kGemmTargetsMax);
  NUMOE_CHECK(shape.cols > 0 && shape.tokens > 0 && shape.groups > 0);
  GemmPlan plan;
  const int most = shape.exact ? kTokenTilesMax / 2 : kTokenTilesMax;  // the latter rounds weights
  while (plan.token_tiles < most && plan.tokens() < shape.tokens) plan.token_tiles *= 2;
  plan.warps = plan.token_tiles == kTokenTilesMax ? kManyWarps : kFewWarps;
  plan.row_blocks = RowBlocks(shape, plan.warps);
  plan.pieces = shape.work_max > 0 ? shape.work_max : CeilDiv(shape.tokens, plan.tokens()) * shape.groups;
  plan.splits = Splits(shape, plan);
  plan.pieces_per_launch = std::min(plan.pieces, kGridRowsMax);
  if (plan.splits > 1) {
    const size_t bytes = plan.block_bytes() * static_cast<size_t>(plan.row_blocks * plan.splits);
    plan.pieces_per_launch =
        std::clamp<int>(static_cast<int>(kPartialBytesMax / bytes), 1, plan.pieces_per_launch);
  }
  return plan;
}

DenseKernel ChooseDenseKernel(int tokens, int architecture, bool exact) {
  const bool pays = architecture >= kWgmmaArchitecture && tokens >= kExpandTokensMin;
  return pays && !exact ? DenseKernel::kExpand : DenseKernel::kTiles;
}

std::string Describe(const GemmPlan& plan) {
  return fmt::format("{} tokens x {} outputs, {} splits, {} x {} blocks", plan.tokens(),
                     plan.warps * kPanelOutputs, plan.splits, plan.row_blocks, plan.pieces);
}

}  // namespace numoe::execution::cuda
