// MeasuringDevice: counts what a model would take of a GPU, on a machine that has none.
//
// Loads like the CUDA device, into the same store, which keeps nothing here. It has no kernels: beginning a
// step on it is a bug in its caller. One thread.
#pragma once

#include <memory>
#include <string>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/cuda_store.h"

namespace numoe::execution::cuda {

class MeasuringDevice final : public Device {
 public:
  /// `facts` of the card that is planned for.
  MeasuringDevice(const StepBounds& bounds, const DeviceFacts& facts)
      : store_(bounds, facts, /*runtime=*/nullptr, /*stream=*/nullptr) {}

  CudaStore& store() override { return store_; }
  absl::StatusOr<ExpertSlots*> ReserveExperts(const ExpertSlotSpec& spec) override {
    store_.CountExperts(spec);
    return nullptr;
  }
  absl::Status ReserveKvCache(const KvCacheSize& size) override { return store_.ReserveKvCache(size); }
  void ConnectExperts(ExpertBackend&) override {}
  std::unique_ptr<Step> Begin(const StepLayout&) override {
    NUMOE_CHECK(false) << "a device that only measures was asked to run";
    return nullptr;
  }
  DeviceMemory memory() const override { return store_.memory(); }
  std::string Describe() const override { return store_.facts().name; }

 private:
  CudaStore store_;
};

}  // namespace numoe::execution::cuda
