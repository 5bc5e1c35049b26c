// ExpertSlots: routed experts that a device computes itself; the workers compute the others.
//
// Every MoE layer has the same number of slots. A slot is empty or holds one expert of its layer. Filling a
// slot copies weights and may take long, so other threads do it; only the engine's thread changes which
// expert a slot is assigned to, between two steps, so that every step sees one assignment. The workers hold
// all experts, so every layer is complete regardless of what the slots hold.
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
  std::vector<bool> layer_is_moe;  // for all layers of the model
  int experts = 0;                 // per MoE layer
  int experts_per_token = 0;
  int slots = 0;           // per MoE layer
  int window = 0;          // experts of a layer that are fetched at a time for long prompts; 0: no fetching
  ExpertMatrices example;  // the shapes and formats that all experts have

  int layers() const { return static_cast<int>(layer_is_moe.size()); }
};

class ExpertSlots {
 public:
  virtual ~ExpertSlots() = default;

  virtual const ExpertSlotSpec& spec() const = 0;
  /// Copies an expert's weights into an empty slot. May be called by any thread, and by several at once for
  /// different slots. REQUIRES: the slot has been empty since before the step that preceded the running one.
  virtual absl::Status Fill(LayerId layer, int slot, const ExpertMatrices& matrices) = 0;
  /// Assigns `expert` to the slot, or empties the slot if it is kNoExpert; applies to all later steps. Called
  /// by the engine's thread, between steps.
  virtual void Assign(LayerId layer, int slot, ExpertId expert) = 0;
  /// Writes how often each expert was selected since the last call, [layers, experts]. Called by the engine's
  /// thread.
  virtual absl::Status TakeCounts(absl::Span<uint32_t> counts) = 0;
};

}  // namespace numoe::execution
