// LaunchingStep: what the steps have in common whose operations are enqueued on the GPU, to run at once
// (eager_step.h, fetched_step.h) or to be recorded (captured_step.h).
//
// Everything but the routed experts' way and the reading of logits, which is what they differ in. One thread,
// the engine's.
#pragma once

#include <memory>
#include <utility>

#include "coordinator/execution/device/cuda/cuda_operations.h"
#include "coordinator/execution/device/cuda/cuda_parts.h"
#include "coordinator/execution/device/cuda/step_memory.h"
#include "coordinator/execution/device/step.h"

namespace numoe::execution::cuda {

class LaunchingStep : public Step {
 public:
  LaunchingStep(StepFrame frame, const CudaParts& parts)
      : parts_(parts),
        frame_(std::move(frame)),
        memory_{parts.store, parts.buffers, frame_, parts.runtime, parts.stream} {}

  StepWay way() const override { return frame_.halves() ? StepWay::kHalves : StepWay::kWhole; }
  Rows all() const override { return frame_.parts[0].rows; }
  absl::Span<const Rows> parts() const override { return frame_.layer_rows; }

  Operations& ops() override { return *operations_; }

 protected:
  const CudaParts& device() const { return parts_; }
  const StepFrame& frame() const { return frame_; }
  const StepMemory& memory() const { return memory_; }
  /// Makes the operations. Comes when the step's tables are on their way, or will be before what is recorded
  /// runs.
  void MakeOperations() { operations_ = MakeCudaOperations(memory_, parts_.kernels); }
  /// The first `count` of the rows that want logits.
  Rows SelectRows(int count, Tensor in, Tensor out) const;

  RoutedCall CallOf(const RoutedRows& work) const;
  float* Residual(const RoutedRows& work, Tensor residual) const {
    return memory_.Data<float>(work.rows.first, residual);
  }
  /// Counts the selected experts and sorts out what hot ones compute, so that the workers get the rest at
  /// once.
  void EnqueueSort(const RoutedCall& call) const;
  /// The call without the experts that are hot. REQUIRES: it was sorted last.
  RoutedCall LeftOf(RoutedCall call) const;
  /// residual += the hot experts' sums. REQUIRES: the call was sorted last.
  void EnqueueHot(const RoutedCall& call, float* residual) const;

 private:
  const CudaParts parts_;
  const StepFrame frame_;
  const StepMemory memory_;
  std::unique_ptr<Operations> operations_;
};

}  // namespace numoe::execution::cuda
