// ExpertSlots: routed experts that a device computes itself; the workers compute the others.
//
// Every MoE layer has the same number of slots. A slot is empty, or holds one expert of its layer. Filling
// copies weights and may take long, so it has threads of its own; what a slot counts as is changed by the
// engine's thread between two steps, so that every step sees one assignment. The workers hold all experts, so
// a layer is whole whatever the slots hold.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/weights/checkpoint.h"

namespace numoe::execution {

/// An expert's weights as stored.
struct ExpertMatrices {
  MatrixView gate;  // [width, hidden]
  MatrixView up;    // [width, hidden]
  MatrixView down;  // [hidden, width]
};

struct ExpertSlotSpec {
  std::vector<bool> layer_is_moe;  // of the whole model
  int experts = 0;                 // of a MoE layer
  int experts_per_token = 0;
  int slots = 0;           // of each MoE layer
  int window = 0;          // experts of a layer that are fetched at a time for long prompts; 0: none
  ExpertMatrices example;  // shapes and formats; all experts have these

  int layers() const { return static_cast<int>(layer_is_moe.size()); }
};

class ExpertSlots {
 public:
  virtual ~ExpertSlots() = default;

  virtual const ExpertSlotSpec& spec() const = 0;
  /// Copies an expert's weights into an empty slot. Any thread, and several at once for different slots.
  /// REQUIRES: the slot has been empty since before the step before the one that runs now.
  virtual absl::Status Fill(LayerId layer, int slot, const ExpertMatrices& matrices) = 0;
  /// From the next step on the slot is `expert`; kNoExpert: empty. The engine's thread, between steps.
  virtual void Assign(LayerId layer, int slot, ExpertId expert) = 0;
  /// How often each expert was selected since the last call, [layers, experts]. The engine's thread.
  virtual absl::Status TakeCounts(absl::Span<uint32_t> counts) = 0;
};

}  // namespace numoe::execution
