#include "coordinator/execution/device/cuda/eager_step.h"

#include "common/base/status.h"

namespace numoe::execution::cuda {

EagerStep::EagerStep(StepFrame frame, const CudaParts& parts) : LaunchingStep(std::move(frame), parts) {
  device().UploadTables();
  MakeOperations();
}

void EagerStep::Stage(const RoutedRows& work) {
  const RoutedCall call = CallOf(work);
  EnqueueSort(call);
  device().staged.Stage(LeftOf(call));
}

absl::Status EagerStep::Send(const RoutedRows& work, Tensor residual) {
  device().direct.CheckOnce();
  const RoutedCall call = CallOf(work);
  RETURN_IF_ERROR(device().staged.Start(call));
  EnqueueHot(call, Residual(work, residual));  // while the workers compute the other experts
  return absl::OkStatus();
}

absl::Status EagerStep::Add(const RoutedRows& work, Tensor residual) {
  return device().staged.Finish(CallOf(work), Residual(work, residual));
}

absl::Status EagerStep::AddDeferred(const RoutedRows& work, Tensor residual) {
  return device().staged.FinishDeferred(CallOf(work), Residual(work, residual));
}

absl::StatusOr<StepOutput> EagerStep::ReadLogits(Rows rows, Tensor logits) {
  if (device().sampling.any())
    device().sampling.EnqueueDraw(memory().Data<const float>(rows.first, logits), device().stream);
  RETURN_IF_ERROR(device().logits.Read(logits, frame().logit_rows));
  return device().logits.output();
}

}  // namespace numoe::execution::cuda
