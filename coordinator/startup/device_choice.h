// DeviceChoice: the device that --device, --gpu-memory and --plan ask for.
//
// "auto" takes the first GPU if this program was built with CUDA and there is one, otherwise the CPU. A GPU
// that is asked for by name and cannot be used is an error, never a silent fallback. A flag that does nothing
// on the chosen device is refused if it is on the command line together with a --device that names the kind
// of device; otherwise the log mentions it. The flag --plan needs no hardware: a device that only measures
// counts what a card of --gpu-memory would hold. Errors say what was found and what to change. One thread
// calls it, at the start.
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
  /// FAILED_PRECONDITION names a flag that does nothing on the chosen device.
  static absl::StatusOr<DeviceChoice> Make(const ServingOptions& options);

  bool gpu() const { return room_.gpu; }
  /// The memory that the model may take on a GPU: the free memory, or --gpu-memory, less what the driver
  /// needs. On the CPU the model shares the host's memory (host_share.h).
  const DeviceRoom& room() const { return room_; }
  /// Returns the device. `context_tokens` are those of the longest sequence. REQUIRES: without `measure_only`
  /// it is called at most once, because the device takes the runtime.
  absl::StatusOr<std::unique_ptr<execution::Device>> Create(int64_t context_tokens, bool measure_only);

 private:
  DeviceChoice(const DeviceOptions& device, const CapacityRequest& capacity)
      : device_(device), step_tokens_(capacity.step_tokens), sequences_(capacity.sequences_max) {}
  // Leaves room_.gpu false and returns the reason if "auto" falls back to the CPU.
  absl::StatusOr<std::string> FindGpu(bool plan);
  absl::Status FindRoom();
  absl::StatusOr<std::unique_ptr<execution::Device>> CreateCpu(bool measure_only) const;

  const DeviceOptions device_;
  const int step_tokens_;
  const int sequences_;
  DeviceRoom room_;
  execution::cuda::DeviceFacts facts_;
  std::unique_ptr<execution::cuda::Runtime> runtime_;  // null on the CPU, and for a plan without a card
};

}  // namespace numoe::startup
