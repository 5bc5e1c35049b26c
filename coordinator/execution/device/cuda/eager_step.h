// EagerStep: a step whose operations run as they are enqueued, and whose layer calls go through the host.
//
// Used for prompts, for steps with many rows, and if workers are on other hosts. One thread, the engine's.
#pragma once

#include "coordinator/execution/device/cuda/launching_step.h"

namespace numoe::execution::cuda {

class EagerStep final : public LaunchingStep {
 public:
  EagerStep(StepFrame frame, const CudaParts& parts);

  Rows SelectLogitRows(Tensor in, Tensor out) override { return SelectRows(frame().logit_rows, in, out); }
  absl::StatusOr<StepOutput> ReadLogits(Rows rows, Tensor logits) override;

 private:
  void Stage(const RoutedRows& work) override;
  absl::Status Send(const RoutedRows& work, Tensor residual) override;
  absl::Status Add(const RoutedRows& work, Tensor residual) override;
  absl::Status AddDeferred(const RoutedRows& work, Tensor residual) override;
  bool defers() const override { return frame().bucket.deferred_experts > 0; }
};

}  // namespace numoe::execution::cuda
