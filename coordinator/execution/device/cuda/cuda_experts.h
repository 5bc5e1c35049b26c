// CudaExperts: the slots of hot experts in the GPU's memory, and which expert is in which.
//
// A slot is one block of memory (kernels/experts.h). Which expert is where is a table in device memory that
// is uploaded before a step when it has changed, so captured steps see exchanges without being captured anew.
// Assign may come while the step before still runs (one that fetches and wants no logits is not waited for),
// so it changes a table that no copy reads. One thread, the engine's, but for Fill.
#pragma once

#include <memory>
#include <vector>

#include "coordinator/execution/device/cuda/expert_products.h"
#include "coordinator/execution/device/expert_slots.h"

namespace numoe::execution::cuda {

class CudaExperts final : public ExpertSlots {
 public:
  static absl::StatusOr<std::unique_ptr<CudaExperts>> Create(const ExpertSlotSpec& spec, Runtime& runtime,
                                                             Stream stream);

  const ExpertSlotSpec& spec() const override { return spec_; }
  absl::Status Fill(LayerId layer, int slot, const ExpertMatrices& matrices) override;
  void Assign(LayerId layer, int slot, ExpertId expert) override;
  absl::Status TakeCounts(absl::Span<uint32_t> counts) override;

  /// Uploads a changed table. Not while a step is captured. REQUIRES: the step before has been waited for.
  void BeginStep();
  /// Counts what the layer's step selected.
  void EnqueueCount(const ExpertsCall& call);
  SlotSet Slots(LayerId layer) const;
  /// As the next step sees it.
  bool Holds(LayerId layer, ExpertId expert) const;

 private:
  CudaExperts(const ExpertSlotSpec& spec, Runtime& runtime, Stream stream);
  template <typename T>
  static T* At(const std::unique_ptr<Memory>& memory) {
    return reinterpret_cast<T*>(memory->device());
  }

  const ExpertSlotSpec spec_;
  const ExpertSlot slot_;
  Runtime& runtime_;
  const Stream stream_;
  std::vector<std::unique_ptr<Memory>> slots_;  // [layers], null where one is dense
  // [layers, experts] slot or -1: of the next step, on its way to the device (pinned), there.
  std::vector<int32_t> assigned_;
  std::unique_ptr<Memory> host_table_, table_;
  bool table_changed_ = true;
  std::unique_ptr<Memory> counts_, host_counts_;  // [layers, experts]
};

}  // namespace numoe::execution::cuda
