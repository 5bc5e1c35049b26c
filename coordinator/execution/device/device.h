// Device: stores and computes the coordinator's part of the model (everything except the workers' routed
// experts). The model is written once, against this interface.
//
// A device holds weights and memory; a step (step.h) computes one forward pass with them. The device chooses
// the element type of activations (the CPU uses fp32): handles are opaque to the model. Owned and called by
// one thread, the engine's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/execution/device/expert_slots.h"
#include "coordinator/execution/device/step.h"
#include "coordinator/execution/device/store.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe::execution {

/// The bytes that a device allocates for a model.
struct DeviceMemory {
  uint64_t weights = 0;
  uint64_t kv_cache = 0;
  uint64_t scratch = 0;  // activations of the largest step
  uint64_t experts = 0;  // slots for hot experts
  uint64_t windows = 0;  // windows for experts that are fetched for long prompts
  uint64_t total() const { return weights + kv_cache + scratch + experts + windows; }
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceStore& store() = 0;

  /// Allocates slots for routed experts, all of them empty, and windows for fetched experts. Must be called
  /// before the cache is reserved. Returns null if the spec has no slots. The slots live as long as the
  /// device. UNIMPLEMENTED: this device computes no routed experts.
  virtual absl::StatusOr<ExpertSlots*> ReserveExperts(const ExpertSlotSpec&) {
    return absl::UnimplementedError("experts are computed by the workers alone on this device");
  }
  /// Reserves the store's caches and touches them and all tensors, so that no step runs out of memory. No
  /// tensor, cache or weight may be added to the store afterwards. RESOURCE_EXHAUSTED states how much was
  /// requested; INVALID_ARGUMENT: the data type does not fit the rows of a cache, or the device has no
  /// attention for them.
  virtual absl::Status ReserveKvCache(const KvCacheSize& size) = 0;
  /// Sets the backend that computes the steps' routed experts. It must outlive the device's last step.
  virtual void ConnectExperts(ExpertBackend& experts) = 0;
  /// From now on, steps with at least `prompt_tokens_min` prompt tokens fetch the experts from the workers'
  /// memory and compute them here, in the windows of ReserveExperts; whenever that memory is not mapped, the
  /// workers compute them. UNAVAILABLE: the memory is not available now; UNIMPLEMENTED: it never can be.
  /// Either error states why.
  virtual absl::Status FetchExperts(int /*prompt_tokens_min*/) {
    return absl::UnimplementedError("experts are computed by the workers alone on this device");
  }
  /// Returns the seconds that fetching the experts of one layer takes; fetches them once or twice to measure
  /// it. REQUIRES: FetchExperts returned OK; no step runs.
  virtual absl::StatusOr<double> MeasureFetchSeconds() {
    return absl::UnimplementedError("this device fetches no experts");
  }

  /// Begins one forward pass. `layout` must outlive the step. REQUIRES: the previous step has ended; the
  /// layout has at most as many rows as the largest step.
  virtual std::unique_ptr<Step> Begin(const StepLayout& layout) = 0;
  /// Whether this device can draw tokens; if not, no layout may have samples.
  virtual bool CanDraw() const { return false; }

  /// The bytes that were loaded and reserved so far, and those that the first steps will add.
  virtual DeviceMemory memory() const = 0;
  /// One line for the start log that describes this device.
  virtual std::string Describe() const = 0;
};

}  // namespace numoe::execution
