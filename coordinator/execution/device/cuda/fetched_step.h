// FetchedStep: a long prompt's step, whose routed experts come from the workers' memory and are computed here
// (expert_windows.h). No worker is asked.
//
// The windows are on their way when the step begins. It is whole, and nothing is deferred. One thread, the
// engine's.
#pragma once

#include "coordinator/execution/device/cuda/launching_step.h"

namespace numoe::execution::cuda {

class FetchedStep final : public LaunchingStep {
 public:
  /// REQUIRES: ExpertWindows::BeginStep returned true for this step.
  FetchedStep(StepFrame frame, const CudaParts& parts);

  StepWay way() const override { return StepWay::kFetched; }
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
