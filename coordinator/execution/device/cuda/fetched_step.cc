#include "coordinator/execution/device/cuda/fetched_step.h"

#include "common/base/status.h"

namespace numoe::execution::cuda {

FetchedStep::FetchedStep(StepFrame frame, const CudaParts& parts) : LaunchingStep(std::move(frame), parts) {
  NUMOE_CHECK(device().windows != nullptr && !this->frame().halves());
  device().UploadTables();
  MakeOperations();
}

absl::Status FetchedStep::Send(const RoutedRows& work, Tensor residual) {
  EnqueueHot(CallOf(work), Residual(work, residual));
  return absl::OkStatus();
}

absl::Status FetchedStep::Add(const RoutedRows& work, Tensor residual) {
  device().windows->EnqueueLayer(LeftOf(CallOf(work)).products(), *device().products,
                                 Residual(work, residual));
  return absl::OkStatus();
}

absl::Status FetchedStep::AddDeferred(const RoutedRows&, Tensor) {
  NUMOE_CHECK(false) << "a fetched step defers no experts";
  return absl::OkStatus();
}

absl::StatusOr<StepOutput> FetchedStep::ReadLogits(Rows rows, Tensor logits) {
  if (device().sampling.any())
    device().sampling.EnqueueDraw(memory().Data<const float>(rows.first, logits), device().stream);
  const absl::Status read = device().logits.Read(logits, frame().logit_rows);
  device().windows->EndStep();
  RETURN_IF_ERROR(read);
  return device().logits.output();
}

}  // namespace numoe::execution::cuda
