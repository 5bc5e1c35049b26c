// The memory that experts need on a card: the formats and bytes of a slot, windows of fetched experts, and
// scratch for the largest step.
//
// Pure and without kernels, so that memory can be planned on machines without a GPU. The scratch is large
// enough for `rows_max` rows all of whose experts are on the device. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/experts.h"
#include "coordinator/execution/device/expert_slots.h"

namespace numoe::execution::cuda {

/// Returns the slot for the spec's experts, whose formats keep the stored bits if the device can decode them.
ExpertSlot SlotOf(const ExpertSlotSpec& spec);

/// The bytes of every part of the scratch.
struct ExpertScratch {
  size_t pairs = 0;  // one array of int32 [rows_max, experts_per_token]
  size_t sort_counts = 0;
  size_t work = 0;
  size_t activations = 0;
  size_t outputs = 0;
  size_t partials = 0;
  size_t arrivals = 0;
  size_t per_expert = 0;  // one array of int32 [layers, experts]

  /// Three arrays (tokens, places and left) have the size `pairs`, two (the table and the counts)
  /// `per_expert`.
  size_t total() const {
    return 3 * pairs + sort_counts + work + activations + outputs + partials + arrivals + 2 * per_expert;
  }
};
ExpertScratch PlanExpertScratch(const ExpertSlotSpec& spec, int rows_max);

/// Returns the bytes of all slots of all MoE layers.
uint64_t SlotBytes(const ExpertSlotSpec& spec);

/// Experts are fetched into one window while those of the other are computed. Their bytes are first copied to
/// one of two stages, in the workers' layout.
inline constexpr int kWindows = 2;
inline constexpr int kStages = 2;
struct WindowSizes {
  size_t window = 0;  // bytes
  size_t stage = 0;
  size_t tables = 0;
  int tables_max = 0;  // windows of a step
  uint64_t total() const { return kWindows * window + kStages * stage + tables; }
};
WindowSizes PlanWindowSizes(const ExpertSlotSpec& spec);

}  // namespace numoe::execution::cuda
