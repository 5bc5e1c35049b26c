// Which device the model runs on: --device, --gpu-memory and --plan become a Device.
//
// "auto" takes the first GPU where this program was built with CUDA and one is there, and the CPU otherwise;
// a GPU that is asked for by name and cannot be used is an error, never a silent fall back. A device that
// only measures needs no hardware: --plan counts what a card of --gpu-memory would hold. Errors say what was
// found and what to change. Called at start, by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/coordinator_flags.h"
#include "coordinator/device/cuda/runtime.h"
#include "coordinator/device/device.h"

namespace numoe {

/// "80GiB", "24 GB", "81920MiB", or a plain number of bytes. INVALID_ARGUMENT says what is expected.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);

class DeviceChoice {
 public:
  static absl::StatusOr<DeviceChoice> Make(const CoordinatorFlags& flags);

  bool gpu() const { return gpu_; }
  /// Bytes that the model may take on a GPU: what is free, or --gpu-memory, less what the driver needs. 0:
  /// the model runs on the CPU and shares the host's memory (common/topology/host_memory.h).
  uint64_t available() const { return available_; }
  /// `context_tokens`: of the longest sequence. Each runtime is handed out once.
  absl::StatusOr<std::unique_ptr<Device>> Create(int64_t context_tokens, bool measure_only);

 private:
  explicit DeviceChoice(const CoordinatorFlags& flags) : flags_(flags) {}
  absl::Status ChooseGpu(int ordinal);
  absl::StatusOr<std::unique_ptr<Device>> CreateCpu(bool measure_only) const;

  const CoordinatorFlags& flags_;
  bool gpu_ = false;
  uint64_t available_ = 0;
  cuda::DeviceFacts facts_;
  std::unique_ptr<cuda::Runtime> runtime_;  // null: the CPU, or a plan without a card
};

}  // namespace numoe
