#include "coordinator/execution/device/cuda/cuda_products.h"

#include <vector>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/dense_expand.h"
#include "coordinator/execution/device/cuda/kernels/elementwise.h"

namespace numoe::execution::cuda {

// Divides the targets into launches: targets of one launch must have the same format, those of a Linear may
// differ.
void CudaProducts::Multiply(int rows, const Bf16* x, int64_t x_stride,
                            absl::Span<const GemmTarget> targets) const {
  std::vector<GemmTarget> tiled;
  for (const GemmTarget& target : targets) {
    if (memory_.store.UsesLibrary(target.matrix, rows, memory_.frame.bucket.exact)) {
      MultiplyExpanded(rows, x, x_stride, target);
    } else {
      tiled.push_back(target);
    }
  }
  for (int format = 0; format < kDeviceFormats; ++format)
    MultiplyTiled(rows, x, x_stride, static_cast<DeviceFormat>(format), tiled);
}

void CudaProducts::MultiplyTiled(int rows, const Bf16* x, int64_t x_stride, DeviceFormat format,
                                 absl::Span<const GemmTarget> targets) const {
  GemmArgs args{.x = x, .x_stride = x_stride, .rows = rows};
  GemmShape shape{.target_count = 0,
                  .tokens = rows,
                  .multiprocessors = memory_.runtime.facts().multiprocessors,
                  .exact = memory_.frame.bucket.exact};
  for (const GemmTarget& target : targets) {
    if (target.matrix.format != format) continue;
    NUMOE_CHECK_LT(args.target_count, kGemmTargetsMax);
    shape.panels[shape.target_count++] = PanelCount(target.matrix.rows, target.matrix.gated);
    shape.cols = target.matrix.cols;
    args.targets[args.target_count++] = target;
  }
  if (args.target_count > 0) LaunchPlanned(shape, args);
}

// For many tokens: uses the matrix library with a row-major BF16 copy of the matrix (kernels/dense_expand.h).
void CudaProducts::MultiplyExpanded(int rows, const Bf16* x, int64_t x_stride,
                                    const GemmTarget& target) const {
  const DeviceMatrix& matrix = target.matrix;
  const CudaStore::ProductScratch& scratch = memory_.store.product_scratch();
  auto* weights = reinterpret_cast<Bf16*>(scratch.library_weights->device());
  LaunchExpand({.matrix = matrix, .out = weights, .out_stride = matrix.cols}, memory_.stream);
  const int columns = matrix.rows * (matrix.gated ? 2 : 1);
  void* const out = matrix.gated ? scratch.library_gated->device() : target.out;
  memory_.runtime.Multiply({.a = x,
                            .b = weights,
                            .c = out,
                            .rows = rows,
                            .columns = columns,
                            .depth = matrix.cols,
                            .a_stride = x_stride,
                            .b_stride = matrix.cols,
                            .c_stride = matrix.gated ? columns : target.out_stride,
                            .c_is_float = target.output != GemmOutput::kBf16,
                            .accumulate = target.output == GemmOutput::kAddFp32},
                           memory_.stream);
  if (!matrix.gated) return;
  const auto* halves = static_cast<const Bf16*>(out);
  NUMOE_CHECK_EQ(target.out_stride, matrix.rows);
  LaunchSiluMul({.gate = halves,
                 .up = halves + matrix.rows,
                 .in_stride = columns,
                 .out = static_cast<Bf16*>(target.out),
                 .rows = rows,
                 .width = matrix.rows},
                memory_.stream);
}

void CudaProducts::LaunchPlanned(const GemmShape& shape, GemmArgs& args) const {
  const CudaStore::ProductScratch& scratch = memory_.store.product_scratch();
  args.plan = PlanGemm(shape);
  NUMOE_CHECK_LE(args.plan.partial_bytes(), scratch.partials->bytes());
  NUMOE_CHECK_LE(static_cast<size_t>(args.plan.arrivals()) * sizeof(uint32_t), scratch.arrivals->bytes());
  args.partials = reinterpret_cast<float*>(scratch.partials->device());
  args.arrivals = reinterpret_cast<uint32_t*>(scratch.arrivals->device());
  LaunchGemm(args, memory_.stream);
}

void CudaProducts::MultiplyHeads(const DeviceHeads& matrices, const Windows<const Bf16>& in,
                                 const Windows<Bf16>& out, int rows) const {
  GemmArgs args{.target_count = 1,
                .x = in.data + in.offset,
                .x_stride = in.row_stride,
                .x_group_stride = in.stride,
                .rows = rows,
                .groups = matrices.heads,
                .group_bytes = matrices.head_bytes};
  args.targets[0] = {.matrix = matrices.first,
                     .out = out.data + out.offset,
                     .out_stride = out.row_stride,
                     .out_group_stride = out.stride};
  GemmShape shape{.cols = matrices.first.cols,
                  .tokens = rows,
                  .groups = matrices.heads,
                  .multiprocessors = memory_.runtime.facts().multiprocessors,
                  .exact = memory_.frame.bucket.exact};
  shape.panels[0] = PanelCount(matrices.first.rows, false);
  LaunchPlanned(shape, args);
}

}  // namespace numoe::execution::cuda
