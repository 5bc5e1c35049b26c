// Which experts of a step's layers are fetched in which order: windows of experts, and of each the copies
// that bring its bytes from the workers' memory.
//
// Pure. A window is what the device holds at a time of one layer: as many experts as have room. Experts that
// the device holds already are left out. Places in a worker's block are those of mapped_weights.h; experts
// that lie one behind the other in a worker's memory come into slots one behind the other, so that they are
// one copy.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/execution/device/cuda/kernels/experts.h"
#include "coordinator/execution/transport/expert_memory.h"

namespace numoe::execution::cuda {

/// Experts that lie one behind the other in one worker's memory.
struct WindowCopy {
  int worker = 0;
  int place = 0;  // of the first, in the layer's block
  int slot = 0;   // of the first, in the window
  int count = 0;
};

struct ExpertWindow {
  LayerId layer = 0;
  std::vector<ExpertId> experts;  // by slot
  std::vector<WindowCopy> copies;
};

/// The layer's windows of at most `capacity` experts, of those that `held` does not say the device has.
std::vector<ExpertWindow> PlanWindows(LayerId layer, const ExpertShare& share, int capacity,
                                      const std::function<bool(ExpertId)>& held);

/// How the device holds an expert of the layer whose parts the workers hold as `parts` say, in slice order:
/// the workers' own bits where the product kernels decode them, BF16 otherwise (kernels/experts_repack.h).
/// UNIMPLEMENTED: parts that no kernel can put together; says which. INVALID_ARGUMENT: the parts do not make
/// an expert of [width, hidden].
struct LayerPart {
  MappedLayer layer;
  int width = 0;
  int64_t first = 0;
};
absl::StatusOr<ExpertSlot> SlotOfParts(const std::vector<LayerPart>& parts, bool by_expert, int hidden,
                                       int width);

}  // namespace numoe::execution::cuda
