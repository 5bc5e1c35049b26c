// CudaExperts: the slots of hot experts in the GPU's memory, and their part of a layer.
//
// A slot is one block of memory (kernels/experts.h). Which expert is where is a table in device memory that
// is uploaded before a step when it has changed, so captured steps see exchanges without being captured anew.
// A layer: sort the step's pairs by slot, take those experts out of what goes to the workers, multiply, add.
// One thread, the engine's, but for Fill.
#pragma once

#include <memory>
#include <vector>

#include "coordinator/device/cuda/expert_sizes.h"
#include "coordinator/device/cuda/kernels/experts.h"
#include "coordinator/device/cuda/kernels/permute.h"
#include "coordinator/device/cuda/runtime.h"
#include "coordinator/device/expert_slots.h"

namespace numoe::cuda {

/// One layer of one step; device memory, rows of the bucket.
struct ExpertsCall {
  LayerId layer = 0;
  int rows = 0;
  bool exact = false;
  const Bf16* hidden = nullptr;      // [rows, hidden]
  const int32_t* experts = nullptr;  // [rows, experts_per_token]
  const float* weights = nullptr;    // [rows, experts_per_token]
};

class CudaExperts final : public ExpertSlots {
 public:
  static absl::StatusOr<std::unique_ptr<CudaExperts>> Create(const ExpertSlotSpec& spec, int rows_max,
                                                             Runtime& runtime, Stream stream);

  const ExpertSlotSpec& spec() const override { return spec_; }
  absl::Status Fill(LayerId layer, int slot, const ExpertMatrices& matrices) override;
  void Assign(LayerId layer, int slot, ExpertId expert) override;
  absl::Status TakeCounts(absl::Span<uint32_t> counts) override;

  /// Uploads a changed table. Not while a step is captured.
  void BeginStep();
  /// Sorts the pairs; the experts that are left for the workers, [rows, experts_per_token].
  const int32_t* EnqueueSort(const ExpertsCall& call);
  void EnqueueProducts(const ExpertsCall& call);
  /// residual += the slots' weighted outputs of the call before.
  void EnqueueCombine(const ExpertsCall& call, float* residual);

 private:
  CudaExperts(const ExpertSlotSpec& spec, int rows_max, Runtime& runtime, Stream stream);
  ExpertsPlan PlanFor(const ExpertsCall& call) const;
  template <typename T>
  static T* At(const std::unique_ptr<Memory>& memory) {
    return reinterpret_cast<T*>(memory->device());
  }

  const ExpertSlotSpec spec_;
  const int rows_max_;
  const ExpertSlot slot_;
  Runtime& runtime_;
  const Stream stream_;
  std::vector<std::unique_ptr<Memory>> slots_;  // [layers], null where one is dense
  std::unique_ptr<Memory> host_table_, table_;  // [layers, experts] slot or -1
  bool table_changed_ = true;
  std::unique_ptr<Memory> counts_, host_counts_;  // [layers, experts]
  std::unique_ptr<Memory> sort_counts_, tokens_, places_, left_, work_, work_count_;
  std::unique_ptr<Memory> activations_, outputs_, partials_, arrivals_;
  std::vector<std::byte> staging_;  // Fill's
};

}  // namespace numoe::cuda
