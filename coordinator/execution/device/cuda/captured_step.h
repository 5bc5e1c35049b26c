// Captured steps: the first step of a bucket is recorded as a graph, which runs when its logits are read
// (RecordingStep); every later step of the bucket runs that graph again (ReplayedStep).
//
// They are used if the logits of all rows are needed (decoding). Kernels send the routed work to the workers
// themselves (direct_exchange.h), so the host does nothing between layers. All data that differs from step to
// step is in tables that are uploaded before the graph runs (step_buffers.h). Tensors have the rows of the
// bucket, including padding. One thread, the engine's.
#pragma once

#include "coordinator/execution/device/cuda/launching_step.h"

namespace numoe::execution::cuda {

class RecordingStep final : public LaunchingStep {
 public:
  /// REQUIRES: the runtime captures the stream.
  RecordingStep(StepFrame frame, const CudaParts& parts);
  ~RecordingStep() override;

  Rows SelectLogitRows(Tensor in, Tensor out) override { return SelectRows(frame().bucket.rows, in, out); }
  absl::StatusOr<StepOutput> ReadLogits(Rows rows, Tensor logits) override;

 private:
  void Stage(const RoutedRows& work) override { EnqueueSort(CallOf(work)); }
  absl::Status Send(const RoutedRows& work, Tensor residual) override;
  absl::Status Add(const RoutedRows& work, Tensor residual) override;
  absl::Status AddDeferred(const RoutedRows& work, Tensor residual) override;
  bool defers() const override { return frame().bucket.deferred_experts > 0; }
  void EnqueueAdd(ReplyPart part, const RoutedRows& work, Tensor residual);

  bool recording_ = true;
};

class ReplayedStep final : public Step {
 public:
  /// REQUIRES: the frame's bucket has a graph.
  ReplayedStep(StepFrame frame, const CudaParts& parts);

  ExpertExecution expert_execution() const override {
    return frame_.halves() ? ExpertExecution::kHalves : ExpertExecution::kWhole;
  }
  Rows all() const override { return frame_.parts[0].rows; }
  absl::Span<const Rows> parts() const override { return frame_.layer_rows; }

  Operations& ops() override { return operations_; }
  Rows SelectLogitRows(Tensor, Tensor) override { return {RowSet::kLogits, 0, frame_.bucket.rows}; }

  absl::StatusOr<StepOutput> ReadLogits(Rows rows, Tensor logits) override;

 private:
  void Stage(const RoutedRows&) override {}
  /// The first call launches the graph, because the workers' mailboxes are open by then.
  absl::Status Send(const RoutedRows& work, Tensor residual) override;
  absl::Status Add(const RoutedRows& work, Tensor residual) override;
  absl::Status AddDeferred(const RoutedRows& work, Tensor residual) override;
  bool defers() const override { return frame_.bucket.deferred_experts > 0; }
  void LaunchOnce();

  const StepFrame frame_;
  const CudaParts parts_;
  Graph& graph_;
  NoOperations operations_;  // the graph does all the work
  bool launched_ = false;
};

}  // namespace numoe::execution::cuda
