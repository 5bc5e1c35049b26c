// What travels from a coordinator to an expert worker: one MoE layer's work for some tokens.
//
// LayerCallView owns nothing; its spans live in the transport's buffers for the duration of the call.
// LayerExecutor is whoever computes it: an expert worker's slice. Several executors' outputs add up to the
// layer's routed output. kNoExpert among a token's experts is a place that no executor computes.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe {

struct LayerCallView {
  LayerId layer = 0;
  int tokens = 0;
  int experts_per_token = 0;
  bool exact = false;                  // kernels may not choose by batch (deterministic serving)
  absl::Span<const float> hidden;      // [tokens, hidden_size]
  absl::Span<const ExpertId> experts;  // [tokens, experts_per_token]
  absl::Span<const float> weights;     // [tokens, experts_per_token]
};

class LayerExecutor {
 public:
  virtual ~LayerExecutor() = default;
  /// out[tokens, hidden_size] = this slice's weighted partial sums (overwritten). InvalidArgument for a bad
  /// layer, expert id, token count or span size names which; nothing is computed then. One thread at a time.
  virtual absl::Status Execute(const LayerCallView& call, absl::Span<float> out) = 0;
};

}  // namespace numoe
