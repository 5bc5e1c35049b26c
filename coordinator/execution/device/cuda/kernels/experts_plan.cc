#include <algorithm>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/experts.h"
#include "coordinator/execution/device/cuda/kernels/permute.h"

namespace numoe::execution::cuda {
namespace {

// Experts are put on the device because they are selected more often than others: at least twice the mean.
constexpr int kHotFactor = 2;

}  // namespace

ExpertsPlan PlanExperts(const ExpertsShape& shape) {
  NUMOE_CHECK(shape.rows > 0 && shape.k > 0 && shape.slots > 0 && shape.slots <= kSlotsMax);
  NUMOE_CHECK(shape.experts >= shape.slots);
  const int64_t pairs = int64_t{shape.rows} * shape.k;
  const auto rows = static_cast<int>((kHotFactor * pairs + shape.experts - 1) / shape.experts);
  GemmShape gemm{
      .tokens = std::min(rows, shape.rows), .multiprocessors = shape.multiprocessors, .exact = shape.exact};
  gemm.panels[0] = PanelCount(shape.slot.width, true);
  gemm.cols = shape.slot.hidden;
  ExpertsPlan plan;
  plan.piece_rows = PlanGemm(gemm).tokens();
  plan.work_max = PermuteWorkMax(static_cast<int>(pairs), shape.slots, plan.piece_rows);
  gemm.work_max = plan.work_max;
  // Assumes that all experts are selected equally often. Hot experts are selected more often, with which
  // fewer splits would suffice.
  gemm.work_likely =
      static_cast<int>(std::clamp<int64_t>(pairs * shape.slots / shape.experts, 1, plan.work_max));
  plan.up = PlanGemm(gemm);
  gemm.panels[0] = PanelCount(shape.slot.hidden, false);
  gemm.cols = shape.slot.width;
  plan.down = PlanGemm(gemm);
  return plan;
}

}  // namespace numoe::execution::cuda
