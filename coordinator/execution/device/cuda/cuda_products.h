// CudaProducts: a step's products with dense weights; it chooses a product kernel or the matrix library for
// each shape.
//
// Work is enqueued on the step's stream and uses the store's scratch. One thread, the engine's.
#pragma once

#include "absl/types/span.h"
#include "coordinator/execution/device/cuda/kernels/dense_tiles.h"
#include "coordinator/execution/device/cuda/step_memory.h"

namespace numoe::execution::cuda {

class CudaProducts {
 public:
  /// `memory` must outlive this object.
  explicit CudaProducts(const StepMemory& memory) : memory_(memory) {}

  /// Computes out = matrix . x for each target and for `rows` rows of BF16, `x_stride` values apart.
  void Multiply(int rows, const Bf16* x, int64_t x_stride, absl::Span<const GemmTarget> targets) const;
  /// Computes out[row, h] = matrix h . in[row, h] for `rows` rows.
  void MultiplyHeads(const DeviceHeads& matrices, const Windows<const Bf16>& in, const Windows<Bf16>& out,
                     int rows) const;

 private:
  void MultiplyTiled(int rows, const Bf16* x, int64_t x_stride, DeviceFormat format,
                     absl::Span<const GemmTarget> targets) const;
  void MultiplyExpanded(int rows, const Bf16* x, int64_t x_stride, const GemmTarget& target) const;
  void LaunchPlanned(const GemmShape& shape, GemmArgs& args) const;

  const StepMemory& memory_;
};

}  // namespace numoe::execution::cuda
