#include "coordinator/execution/device/cuda/captured_step.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::execution::cuda {
namespace {

Graph& GraphOf(GraphCache& graphs, const StepBucket& bucket) {
  Graph* const graph = graphs.Find(bucket);
  NUMOE_CHECK(graph != nullptr) << "the bucket has no captured graph";
  return *graph;
}

// Finishes a captured step whose graph was launched: waits for it and reads its results.
absl::StatusOr<StepOutput> ReadCaptured(const CudaParts& parts, const StepFrame& frame, Tensor logits) {
  const absl::Status ran = parts.logits.Read(logits, frame.logit_rows);
  RETURN_IF_ERROR(parts.direct.Close(ran, /*ran=*/true));
  return parts.logits.output();
}

}  // namespace

RecordingStep::RecordingStep(StepFrame frame, const CudaParts& parts)
    : LaunchingStep(std::move(frame), parts) {
  MakeOperations();
}

// Discards the recording of a step that failed, whose error was returned already.
RecordingStep::~RecordingStep() {
  if (recording_) (void)device().runtime.EndCapture(device().stream);
}

absl::Status RecordingStep::Send(const RoutedRows& work, Tensor residual) {
  RETURN_IF_ERROR(device().direct.Open(frame().bucket.exact, device().buffers.handovers()));
  const RoutedCall call = CallOf(work);
  const size_t half = work.rows.first > 0 ? 1 : 0;
  device().direct.EnqueueSend(LeftOf(call), device().buffers.device_handover(half));
  EnqueueHot(call, Residual(work, residual));
  return absl::OkStatus();
}

void RecordingStep::EnqueueAdd(ReplyPart part, const RoutedRows& work, Tensor residual) {
  const size_t half = work.rows.first > 0 ? 1 : 0;
  device().direct.EnqueueAdd(part, Residual(work, residual), work.rows.count, residual.cols,
                             device().buffers.device_handover(half));
  device().direct.NextReply(part);
}

absl::Status RecordingStep::Add(const RoutedRows& work, Tensor residual) {
  EnqueueAdd(ReplyPart::kImmediate, work, residual);
  return absl::OkStatus();
}

absl::Status RecordingStep::AddDeferred(const RoutedRows& work, Tensor residual) {
  EnqueueAdd(ReplyPart::kDeferred, work, residual);
  return absl::OkStatus();
}

absl::StatusOr<StepOutput> RecordingStep::ReadLogits(Rows rows, Tensor logits) {
  // The graph draws tokens in every step of its bucket; the tables list the rows from which it draws.
  device().sampling.EnqueueDraw(memory().Data<const float>(rows.first, logits), device().stream);
  recording_ = false;
  absl::StatusOr<std::unique_ptr<Graph>> graph = device().runtime.EndCapture(device().stream);
  if (!graph.ok()) return device().direct.Close(graph.status(), /*ran=*/false);
  device().graphs.Insert(frame().bucket, *std::move(graph));
  device().UploadTables();
  device().runtime.Launch(GraphOf(device().graphs, frame().bucket), device().stream);
  return ReadCaptured(device(), frame(), logits);
}

ReplayedStep::ReplayedStep(StepFrame frame, const CudaParts& parts)
    : frame_(std::move(frame)), parts_(parts), graph_(GraphOf(parts.graphs, frame_.bucket)) {}

void ReplayedStep::LaunchOnce() {
  if (std::exchange(launched_, true)) return;
  parts_.UploadTables();
  parts_.runtime.Launch(graph_, parts_.stream);
}

absl::Status ReplayedStep::Send(const RoutedRows&, Tensor) {
  RETURN_IF_ERROR(parts_.direct.Open(frame_.bucket.exact, parts_.buffers.handovers()));
  LaunchOnce();
  return absl::OkStatus();
}

absl::Status ReplayedStep::Add(const RoutedRows&, Tensor) {
  parts_.direct.NextReply(ReplyPart::kImmediate);
  return absl::OkStatus();
}

absl::Status ReplayedStep::AddDeferred(const RoutedRows&, Tensor) {
  parts_.direct.NextReply(ReplyPart::kDeferred);
  return absl::OkStatus();
}

absl::StatusOr<StepOutput> ReplayedStep::ReadLogits(Rows, Tensor logits) {
  LaunchOnce();
  return ReadCaptured(parts_, frame_, logits);
}

}  // namespace numoe::execution::cuda
