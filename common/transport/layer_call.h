// A layer call: what a coordinator sends to an expert worker, one MoE layer's work for some tokens.
//
// LayerCallView owns nothing; its spans refer to the transport's buffers for the duration of the call. A
// LayerExecutor computes a call: it is an expert worker's slice. The outputs of several executors are added
// to the layer's routed output. kNoExpert among a token's experts is an entry that no executor computes.
//
// A call may ask for two replies: the sums of each token's last `deferred_experts` experts come separately,
// after the others' (expert deferral, KTransformers, SOSP 2025, https://doi.org/10.1145/3731569.3764843).
// SplitCall divides such a call. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe {

/// The replies of a call.
enum class ReplyPart : uint8_t { kImmediate = 0, kDeferred = 1 };

struct LayerCallView {
  uint64_t instance = 0;  // of the worker process for which it is; 0 within one process
  LayerId layer = 0;
  int tokens = 0;
  int experts_per_token = 0;
  int deferred_experts = 0;            // number of each token's last experts that are in the deferred reply
  bool batch_invariant = false;        // a token's bits may not depend on the others (--deterministic)
  absl::Span<const float> hidden;      // [tokens, hidden_size], the MoE block's normalised input
  absl::Span<const ExpertId> experts;  // [tokens, experts_per_token], distinct within a token
  absl::Span<const float> weights;     // [tokens, experts_per_token], final combine weights
};

class LayerExecutor {
 public:
  virtual ~LayerExecutor() = default;
  /// Writes this slice's weighted partial sums to out[tokens, hidden_size]. InvalidArgument names a wrong
  /// layer, expert id, number of tokens or size of a span; nothing is computed then. One thread at a time. A
  /// call with deferred experts is passed as its two parts.
  virtual absl::Status Execute(const LayerCallView& call, absl::Span<float> out) = 0;
};

/// Divides a call into the one or two calls that executors compute, in the order of their replies.
class SplitCall {
 public:
  /// REQUIRES: 0 <= call.deferred_experts < call.experts_per_token. If there are no deferred experts, nothing
  /// is copied.
  void Split(const LayerCallView& call);
  /// The result is valid until the next Split, as long as the call's spans are valid. Without deferred
  /// experts there is no deferred part.
  const LayerCallView& part(ReplyPart part) const { return parts_[static_cast<size_t>(part)].view; }

 private:
  struct Part {
    std::vector<ExpertId> experts;
    std::vector<float> weights;
    LayerCallView view;
  };
  static void Take(const LayerCallView& call, int first, int count, Part& part);
  Part parts_[2];
};

}  // namespace numoe
