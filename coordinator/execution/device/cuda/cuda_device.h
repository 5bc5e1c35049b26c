// CudaDevice: the coordinator's model on an NVIDIA GPU; the routed experts stay with the workers, except
// those that the device holds or fetches.
//
// Owns everything that steps use, and chooses the kind of step for a layout: one that is captured once for
// each bucket of sizes and replayed after that (captured_step.h), one that fetches its experts
// (fetched_step.h), or one that runs operation by operation (eager_step.h). Every operation is enqueued on
// one stream. CONTRACT.md describes the life of a step. Owned and called by the engine's thread.
#pragma once

#include <memory>
#include <string>

#include "coordinator/execution/device/cuda/cuda_parts.h"
#include "coordinator/execution/device/device.h"

namespace numoe::execution::cuda {

class CudaDevice final : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const StepBounds& bounds,
                                                            std::unique_ptr<Runtime> runtime);

  CudaStore& store() override { return store_; }
  absl::StatusOr<ExpertSlots*> ReserveExperts(const ExpertSlotSpec& spec) override;
  absl::Status ReserveKvCache(const KvCacheSize& size) override;
  void ConnectExperts(ExpertBackend& experts) override;
  absl::Status FetchExperts(int prompt_tokens_min) override;
  absl::StatusOr<double> MeasureFetchSeconds() override { return windows_->MeasureLayer(); }
  std::unique_ptr<Step> Begin(const StepLayout& layout) override;
  bool CanDraw() const override { return true; }
  DeviceMemory memory() const override { return store_.memory(); }
  std::string Describe() const override;

 private:
  CudaDevice(const StepBounds& bounds, std::unique_ptr<Runtime> runtime, Stream stream);
  bool MayBeGraph(const StepLayout& layout, const StepBucket& bucket) const;
  /// Whether the step's experts are fetched; if so, fetching has begun when it returns.
  bool Fetches(const StepLayout& layout);
  CudaParts Parts();

  const std::unique_ptr<Runtime> runtime_;  // declared first, so that it outlives everything it allocated
  const Stream stream_;
  CudaStore store_;
  AttendKernels kernels_;
  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<StagedExchange> staged_;
  std::unique_ptr<DirectExchange> direct_;
  std::unique_ptr<ExpertProducts> products_;  // null if the workers compute all routed experts
  std::unique_ptr<CudaExperts> hot_;          // null if this card holds no hot experts
  std::unique_ptr<ExpertWindows> windows_;    // null if no experts are fetched
  std::unique_ptr<SamplingTables> sampling_;
  std::unique_ptr<LogitReader> logits_;
  GraphCache graphs_;
  DirectExperts* direct_experts_ = nullptr;  // null if the backend has no shared memory
  int fetch_tokens_min_ = 0;                 // the fewest prompt tokens of a step that fetches; 0: none does
};

}  // namespace numoe::execution::cuda
