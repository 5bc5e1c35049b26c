// LaunchingStep: the common part of all steps whose operations are enqueued on the GPU, to run at once
// (eager_step.h, fetched_step.h) or to be recorded (captured_step.h).
//
// It contains everything except the execution of routed experts and the reading of logits, in which these
// steps differ. One thread, the engine's.
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

  ExpertExecution expert_execution() const override {
    return frame_.halves() ? ExpertExecution::kHalves : ExpertExecution::kWhole;
  }
  Rows all() const override { return frame_.parts[0].rows; }
  absl::Span<const Rows> parts() const override { return frame_.layer_rows; }

  Operations& ops() override { return *operations_; }

 protected:
  const CudaParts& device() const { return parts_; }
  const StepFrame& frame() const { return frame_; }
  const StepMemory& memory() const { return memory_; }
  /// Makes the operations. REQUIRES: the upload of the step's tables is enqueued, or, in a recorded step,
  /// will be before the graph runs.
  void MakeOperations() { operations_ = MakeCudaOperations(memory_, parts_.kernels); }
  /// Copies the first `count` rows whose logits are needed.
  Rows SelectRows(int count, Tensor in, Tensor out) const;

  RoutedCall CallOf(const RoutedRows& work) const;
  float* Residual(const RoutedRows& work, Tensor residual) const {
    return memory_.Data<float>(work.rows.first, residual);
  }
  /// Counts the selected experts and separates the pairs of hot experts, so that the others can be sent to
  /// the workers at once.
  void EnqueueSort(const RoutedCall& call) const;
  /// Returns the call without the hot experts. REQUIRES: this call was sorted last.
  RoutedCall LeftOf(RoutedCall call) const;
  /// residual += the hot experts' sums. REQUIRES: this call was sorted last.
  void EnqueueHot(const RoutedCall& call, float* residual) const;

 private:
  const CudaParts parts_;
  const StepFrame frame_;
  const StepMemory memory_;
  std::unique_ptr<Operations> operations_;
};

}  // namespace numoe::execution::cuda
