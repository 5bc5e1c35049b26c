// Device: where the coordinator's share of the model is stored and computed. The model is written once
// against it.
//
// A device keeps weights and memory; a step (step.h) computes one forward pass with them. The element type of
// activations is the device's own choice (the CPU keeps fp32): handles are opaque to the model. Owned and
// called by one thread, the engine's.
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

/// Bytes that a device holds for a model.
struct DeviceMemory {
  uint64_t weights = 0;
  uint64_t kv_cache = 0;
  uint64_t scratch = 0;  // activations of the largest step
  uint64_t experts = 0;  // in slots of the device
  uint64_t windows = 0;  // for experts that are fetched for long prompts
  uint64_t total() const { return weights + kv_cache + scratch + experts + windows; }
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceStore& store() = 0;

  /// Room for routed experts, all slots empty, and for windows of them; before the cache is reserved. Null
  /// without slots. The slots live as long as the device. UNIMPLEMENTED: this device computes none.
  virtual absl::StatusOr<ExpertSlots*> ReserveExperts(const ExpertSlotSpec&) {
    return absl::UnimplementedError("experts are computed by the workers alone on this device");
  }
  /// Reserves the store's caches and touches them and all tensors, so that no step finds memory missing. No
  /// tensor, cache or weight is added to the store after it. RESOURCE_EXHAUSTED says how much was asked for,
  /// INVALID_ARGUMENT that the type does not fit a cache's rows, or that the device cannot attend to them.
  virtual absl::Status ReserveKvCache(const KvCacheSize& size) = 0;
  /// The steps' routed experts are computed by `experts`, which outlives the device's last step.
  virtual void ConnectExperts(ExpertBackend& experts) = 0;
  /// From now on steps with at least `prompt_tokens_min` prompt tokens fetch the experts from the workers'
  /// memory and compute them here, in the windows of ReserveExperts; the workers compute them whenever that
  /// memory is not there. UNAVAILABLE and UNIMPLEMENTED say why it is not now, or cannot be.
  virtual absl::Status FetchExperts(int /*prompt_tokens_min*/) {
    return absl::UnimplementedError("experts are computed by the workers alone on this device");
  }
  /// Seconds that the experts of one layer take to come, where FetchExperts was OK; moves them once or twice.
  /// Not during a step.
  virtual absl::StatusOr<double> MeasureFetchSeconds() {
    return absl::UnimplementedError("this device fetches no experts");
  }

  /// One forward pass. `layout` outlives the step. REQUIRES: the step before has ended; the layout has at
  /// most as many rows as the largest step.
  virtual std::unique_ptr<Step> Begin(const StepLayout& layout) = 0;
  /// Whether this device draws tokens; where it does not, no layout has samples.
  virtual bool CanDraw() const { return false; }

  /// What was loaded and reserved so far, and what the first steps add to it.
  virtual DeviceMemory memory() const = 0;
  /// One line for the start log: what this device is.
  virtual std::string Describe() const = 0;
};

}  // namespace numoe::execution
