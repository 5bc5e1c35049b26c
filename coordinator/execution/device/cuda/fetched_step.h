// FetchedStep: a step for long prompts, whose routed experts are fetched from the workers' memory and
// computed here (expert_windows.h). No worker is called.
//
// The first windows are being fetched when the step begins. The step is never divided into halves, and no
// experts are deferred. One thread, the engine's.
#pragma once

#include "coordinator/execution/device/cuda/launching_step.h"

namespace numoe::execution::cuda {

class FetchedStep final : public LaunchingStep {
 public:
  /// REQUIRES: ExpertWindows::BeginStep returned true for this step.
  FetchedStep(StepFrame frame, const CudaParts& parts);

  ExpertExecution expert_execution() const override { return ExpertExecution::kFetched; }
  Rows SelectLogitRows(Tensor in, Tensor out) override { return SelectRows(frame().logit_rows, in, out); }
  absl::StatusOr<StepOutput> ReadLogits(Rows rows, Tensor logits) override;

 private:
  void Stage(const RoutedRows& work) override { EnqueueSort(CallOf(work)); }
  absl::Status Send(const RoutedRows& work, Tensor residual) override;
  absl::Status Add(const RoutedRows& work, Tensor residual) override;
  absl::Status AddDeferred(const RoutedRows& work, Tensor residual) override;
  bool defers() const override { return false; }
};

}  // namespace numoe::execution::cuda
