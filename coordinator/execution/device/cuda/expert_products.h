// ExpertProducts: computes a layer's experts whose weights are in slots of device memory; owns the scratch
// for it.
//
// It sorts a step's (token, expert) pairs by slot, removes their experts from those that are left for others,
// multiplies, and adds up. The slots contain hot experts (cuda_experts.h) or a window of fetched experts
// (expert_windows.h). Sets of slots are processed one after another, each from its sort to its sum. One
// thread, the engine's.
#pragma once

#include <memory>

#include "coordinator/execution/device/cuda/expert_sizes.h"
#include "coordinator/execution/device/cuda/kernels/experts.h"
#include "coordinator/execution/device/cuda/kernels/permute.h"
#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::execution::cuda {

/// The inputs of one layer in one step, in device memory, with the rows of the bucket.
struct ExpertsCall {
  LayerId layer = 0;
  int rows = 0;
  bool exact = false;
  const Bf16* hidden = nullptr;      // [rows, hidden]
  const int32_t* experts = nullptr;  // [rows, experts_per_token]
  const float* weights = nullptr;    // [rows, experts_per_token]
};

/// Contiguous slots with experts of a layer.
struct SlotSet {
  ExpertSlot slot;
  int slots = 0;
  const std::byte* data = nullptr;  // [slots] of slot.bytes()
  const int32_t* table = nullptr;   // [experts] the slot of each expert, or -1
};

class ExpertProducts {
 public:
  static absl::StatusOr<std::unique_ptr<ExpertProducts>> Create(const ExpertSlotSpec& spec, int rows_max,
                                                                Runtime& runtime, Stream stream);

  /// Sorts the pairs whose expert is in the set. Returns the experts that are left for others, [rows,
  /// experts_per_token], valid until the next sort, which may have them as its input.
  const int32_t* EnqueueSort(const ExpertsCall& call, const SlotSet& set);
  /// The experts that the last sort left for others.
  const int32_t* left() const { return At<const int32_t>(left_); }
  void EnqueueProducts(const ExpertsCall& call, const SlotSet& set);
  /// residual += the weighted outputs of the set's experts.
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
