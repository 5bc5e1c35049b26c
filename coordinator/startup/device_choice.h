// Which device the model runs on: --device, --gpu-memory and --plan become a Device.
//
// "auto" takes the first GPU where this program was built with CUDA and one is there, and the CPU otherwise;
// a GPU that is asked for by name and cannot be used is an error, never a silent fall back. A device that
// only measures needs no hardware: --plan counts what a card of --gpu-memory would hold. Errors say what was
// found and what to change. Called at start, by one thread.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/device/device.h"
#include "coordinator/startup/capacity_plan.h"
#include "coordinator/startup/serving_options.h"

namespace numoe::startup {

class DeviceChoice {
 public:
  /// FAILED_PRECONDITION names a flag that only a GPU can do, where there is none.
  static absl::StatusOr<DeviceChoice> Make(const ServingOptions& options);

  bool gpu() const { return room_.gpu; }
  /// On a GPU what the model may take: what is free, or --gpu-memory, less what the driver needs. On the CPU
  /// the model shares the host's memory (host_share.h).
  const DeviceRoom& room() const { return room_; }
  /// `context_tokens`: of the longest sequence. Each runtime is handed out once.
  absl::StatusOr<std::unique_ptr<execution::Device>> Create(int64_t context_tokens, bool measure_only);

 private:
  DeviceChoice(const DeviceOptions& device, const CapacityRequest& capacity)
      : device_(device), step_tokens_(capacity.step_tokens), sequences_(capacity.sequences_max) {}
  // Leaves room_.gpu false and says why where "auto" falls back to the CPU.
  absl::StatusOr<std::string> FindGpu(bool plan);
  absl::Status FindRoom();
  absl::StatusOr<std::unique_ptr<execution::Device>> CreateCpu(bool measure_only) const;

  const DeviceOptions device_;
  const int step_tokens_;
  const int sequences_;
  DeviceRoom room_;
  execution::cuda::DeviceFacts facts_;
  std::unique_ptr<execution::cuda::Runtime> runtime_;  // null: the CPU, or a plan without a card
};

}  // namespace numoe::startup
