// ExpertProducts: the products of a layer's experts that are in device memory, slot by slot, with their
// scratch.
//
// Sort a step's pairs by slot, take those experts out of what is left for others, multiply, add. The slots
// are whoever's: hot experts' (cuda_experts.h) or a window's (expert_windows.h), one set after the other,
// each from its sort to its sum. One thread, the engine's.
#pragma once

#include <memory>

#include "coordinator/execution/device/cuda/expert_sizes.h"
#include "coordinator/execution/device/cuda/kernels/experts.h"
#include "coordinator/execution/device/cuda/kernels/permute.h"
#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::execution::cuda {

/// One layer of one step; device memory, rows of the bucket.
struct ExpertsCall {
  LayerId layer = 0;
  int rows = 0;
  bool exact = false;
  const Bf16* hidden = nullptr;      // [rows, hidden]
  const int32_t* experts = nullptr;  // [rows, experts_per_token]
  const float* weights = nullptr;    // [rows, experts_per_token]
};

/// Experts of a layer that lie one behind the other.
struct SlotSet {
  ExpertSlot slot;
  int slots = 0;
  const std::byte* data = nullptr;  // [slots] of slot.bytes()
  const int32_t* table = nullptr;   // [experts] slot or -1
};

class ExpertProducts {
 public:
  static absl::StatusOr<std::unique_ptr<ExpertProducts>> Create(const ExpertSlotSpec& spec, int rows_max,
                                                                Runtime& runtime, Stream stream);

  /// The experts that are left, [rows, experts_per_token]: valid until the next sort, which may read it.
  const int32_t* EnqueueSort(const ExpertsCall& call, const SlotSet& set);
  /// What the last sort left.
  const int32_t* left() const { return At<const int32_t>(left_); }
  void EnqueueProducts(const ExpertsCall& call, const SlotSet& set);
  /// residual += the slots' weighted outputs.
  void EnqueueCombine(const ExpertsCall& call, const SlotSet& set, float* residual);

 private:
  ExpertProducts(const ExpertSlotSpec& spec, int rows_max, Runtime& runtime, Stream stream)
      : spec_(spec), rows_max_(rows_max), runtime_(runtime), stream_(stream) {}
  ExpertsPlan PlanFor(const ExpertsCall& call, const SlotSet& set) const;
  template <typename T>
  static T* At(const std::unique_ptr<Memory>& memory) {
    return reinterpret_cast<T*>(memory->device());
  }

  const ExpertSlotSpec spec_;
  const int rows_max_;
  Runtime& runtime_;
  const Stream stream_;
  std::unique_ptr<Memory> sort_counts_, tokens_, places_, left_, work_, work_count_;
  std::unique_ptr<Memory> activations_, outputs_, partials_, arrivals_;
};

}  // namespace numoe::execution::cuda
