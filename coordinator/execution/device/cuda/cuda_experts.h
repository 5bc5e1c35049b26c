// CudaExperts: the slots of hot experts in the GPU's memory, and the assignment of experts to slots.
//
// A slot is one block of memory (kernels/experts.h). The assignment is a table in device memory that is
// uploaded before a step if it has changed, so captured steps use the current assignment without being
// captured again. Assign may be called while the previous step still runs (a step that fetches and needs no
// logits is not waited for), so it changes a table from which no copy reads. One thread, the engine's, except
// for Fill.
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

  /// Uploads the table if it has changed. REQUIRES: no step is being captured; the previous step has been
  /// waited for.
  void BeginStep();
  /// Counts the experts that the step selected in the call's layer.
  void EnqueueCount(const ExpertsCall& call);
  SlotSet Slots(LayerId layer) const;
  /// Whether the next step will find the expert in a slot.
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
  std::vector<std::unique_ptr<Memory>> slots_;  // [layers], null for dense layers
  // [layers, experts] slot or -1: for the next step, the pinned copy to upload, and the device's copy.
  std::vector<int32_t> assigned_;
  std::unique_ptr<Memory> host_table_, table_;
  bool table_changed_ = true;
  std::unique_ptr<Memory> counts_, host_counts_;  // [layers, experts]
};

}  // namespace numoe::execution::cuda
