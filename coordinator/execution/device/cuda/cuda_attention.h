// CudaAttention: the attention of one step. If all decode rows fit one plan, they are planned once, before
// the first layer; those of a larger step, or of a step in halves, are planned in stretches of rows in every
// layer. Prefill kernels run after decode kernels, because a decode kernel writes zeros to the rows it skips.
//
// The attention kernels for a cache are chosen once, when it is reserved (AttendKernels). Work is enqueued on
// the step's stream. One thread, the engine's.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "coordinator/execution/device/cuda/cuda_products.h"
#include "coordinator/execution/device/cuda/kernels/attention_grouped.h"
#include "coordinator/execution/device/cuda/kernels/attention_latent.h"
#include "coordinator/execution/device/cuda/step_memory.h"

namespace numoe::execution::cuda {

/// The attention kernels for a cache's rows on a card.
struct AttendKernels {
  LatentKernelShape latent;  // for MLA
  int grouped_blocks = 0;    // for GQA: blocks of the decode kernel on one multiprocessor
};
/// INVALID_ARGUMENT: there is no attention kernel for rows of these widths on this card.
absl::StatusOr<AttendKernels> ChooseAttention(const CacheShape& cache, CacheType type,
                                              const DeviceFacts& facts);

/// Whether a prefill kernel computes the attention of a run of rows. REQUIRES: the store's cache is reserved.
bool Prefills(const CudaStore& store, const PrefillRun& run);

class CudaAttention {
 public:
  /// `memory` and `products` must outlive this object.
  CudaAttention(const StepMemory& memory, const CudaProducts& products, const AttendKernels& kernels)
      : memory_(memory), products_(products), store_(memory.store), frame_(memory.frame), kernels_(kernels) {}

  /// Plans the decode rows of the whole step if they fit one plan. Must be called before the first layer.
  void PlanStep() const;
  void Attend(Rows rows, const AttendArgs& args) const;
  void AttendLatent(Rows rows, const LatentAttendArgs& args) const;

 private:
  /// Whether the decode rows of the whole step fit one plan, which is used for all layers.
  bool PlansOnce() const {
    return !frame_.halves() && frame_.bucket.rows <= store_.AttendRows(frame_.bucket.exact);
  }
  DecodeShape ShapeOf(int rows) const;
  /// `first` is a row of the step's tables.
  void PlanPieces(const DecodeShape& shape, int first) const;
  /// Calls decode(shape, first row of the stretch in `rows`) for stretches of rows that each fit one plan.
  void ForStretches(Rows rows, absl::FunctionRef<void(const DecodeShape& shape, int first)> decode) const;
  void DecodeGrouped(Rows rows, const AttendArgs& args, const DecodeShape& shape, int first) const;
  void DecodeLatent(Rows rows, const LatentAttendArgs& args, const DecodeShape& shape, int first) const;
  void Absorb(Rows rows, const LatentAttendArgs& args) const;
  void PrefillLatent(Rows rows, const LatentAttendArgs& args) const;
  void ExpandStretch(Rows rows, const LatentAttendArgs& args, const PrefillStretch& stretch) const;
  PrefillArgs PrefillArgsOf(Rows rows, size_t pass, Tensor query, Tensor out, int key_width, int value_width,
                            float scale) const;

  const StepMemory& memory_;
  const CudaProducts& products_;
  const CudaStore& store_;
  const StepFrame& frame_;
  const AttendKernels kernels_;
};

}  // namespace numoe::execution::cuda
