// MeasuringDevice: counts the memory that a model would need on a GPU, on a machine without one.
//
// It loads a model like the CUDA device, into the same store, which only counts here. It has no kernels:
// beginning a step on it is a bug in the caller. One thread.
#pragma once

#include <memory>
#include <string>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/cuda_store.h"

namespace numoe::execution::cuda {

class MeasuringDevice final : public Device {
 public:
  /// `facts` describes the card for which memory is planned.
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
    NUMOE_CHECK(false) << "a MeasuringDevice cannot run steps";
    return nullptr;
  }
  DeviceMemory memory() const override { return store_.memory(); }
  std::string Describe() const override { return store_.facts().name; }

 private:
  CudaStore store_;
};

}  // namespace numoe::execution::cuda
