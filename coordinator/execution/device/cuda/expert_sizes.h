// What experts take of a card: a slot's formats and bytes, windows of fetched ones, and the scratch of the
// largest step.
//
// Pure, and without kernels, so that memory can be planned on machines that have no GPU. Scratch is for
// `rows_max` rows whose experts all live on the device. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/experts.h"
#include "coordinator/execution/device/expert_slots.h"

namespace numoe::execution::cuda {

/// Formats that keep the example's stored bits where the device can.
ExpertSlot SlotOf(const ExpertSlotSpec& spec);

/// Bytes of every part of the scratch.
struct ExpertScratch {
  size_t pairs = 0;  // of int32 [rows_max, experts_per_token]
  size_t sort_counts = 0;
  size_t work = 0;
  size_t activations = 0;
  size_t outputs = 0;
  size_t partials = 0;
  size_t arrivals = 0;
  size_t per_expert = 0;  // of int32 [layers, experts]

  /// tokens, places and left are pairs; the table and the counts are per expert.
  size_t total() const {
    return 3 * pairs + sort_counts + work + activations + outputs + partials + arrivals + 2 * per_expert;
  }
};
ExpertScratch PlanExpertScratch(const ExpertSlotSpec& spec, int rows_max);

/// Of all slots of all MoE layers.
uint64_t SlotBytes(const ExpertSlotSpec& spec);

/// Experts are fetched into one window while another is computed; bytes as the workers hold them pass through
/// one of two stages on their way.
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
