// Plans the order in which the experts of a step's layers are fetched: windows of experts, and for each
// window the copies of its bytes from the workers' memory.
//
// Pure. A window is a group of experts of one layer that fits the device's memory for fetched experts.
// Experts that the device already holds are left out. The places of experts in a worker's block are those of
// mapped_weights.h; experts that are contiguous in a worker's memory get contiguous slots, so that one copy
// transfers them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/execution/device/cuda/kernels/experts.h"
#include "coordinator/execution/transport/expert_memory.h"

namespace numoe::execution::cuda {

/// Experts that are contiguous in one worker's memory.
struct WindowCopy {
  int worker = 0;
  int place = 0;  // of the first expert, in the layer's block
  int slot = 0;   // of the first expert, in the window
  int count = 0;
};

struct ExpertWindow {
  LayerId layer = 0;
  std::vector<ExpertId> experts;  // by slot
  std::vector<WindowCopy> copies;
};

/// Plans the layer's windows with at most `capacity` experts each, without experts for which `held` returns
/// true because the device has them.
std::vector<ExpertWindow> PlanWindows(LayerId layer, const ExpertShare& share, int capacity,
                                      const std::function<bool(ExpertId)>& held);

/// One worker's part of a layer's experts: rows [first, first + width) of gate and up, and the same columns
/// of down; all rows if the workers hold whole experts.
struct LayerPart {
  MappedLayer layer;
  int width = 0;
  int64_t first = 0;
};
/// Returns the layout of the slots in which the device holds the layer's experts; `parts` are in slice order.
/// The slots have the workers' own bits if the product kernels decode their format, BF16 otherwise
/// (kernels/experts_repack.h). UNIMPLEMENTED: no kernel can assemble these parts, and the message states why.
/// INVALID_ARGUMENT: the parts do not form an expert of [width, hidden].
absl::StatusOr<ExpertSlot> SlotOfParts(const std::vector<LayerPart>& parts, bool by_expert, int hidden,
                                       int width);

}  // namespace numoe::execution::cuda
