// What travels from a coordinator to an expert worker: one MoE layer's work for some tokens.
//
// LayerCallView owns nothing; its spans live in the transport's buffers for the duration of the call.
// LayerExecutor is whoever computes it: an expert worker's slice. Several executors' outputs add up to the
// layer's routed output. kNoExpert among a token's experts is a place that no executor computes.
//   A call may ask for two replies: the sums of each token's last `deferred_experts` places come by
// themselves, after the others' (expert deferral, KTransformers, SOSP 2025,
// https://doi.org/10.1145/3731569.3764843). SplitCall takes such a call apart. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe {

/// Which of a call's replies.
enum class ReplyPart : uint8_t { kImmediate = 0, kDeferred = 1 };

struct LayerCallView {
  uint64_t instance = 0;  // of the worker process that it is for; 0 where there is no process between
  LayerId layer = 0;
  int tokens = 0;
  int experts_per_token = 0;
  int deferred_experts = 0;            // the last so many places of each token are answered by themselves
  bool exact = false;                  // kernels may not choose by batch (deterministic serving)
  absl::Span<const float> hidden;      // [tokens, hidden_size], the normed input of the MoE block
  absl::Span<const ExpertId> experts;  // [tokens, experts_per_token], distinct within a token
  absl::Span<const float> weights;     // [tokens, experts_per_token], final combine weights
};

class LayerExecutor {
 public:
  virtual ~LayerExecutor() = default;
  /// out[tokens, hidden_size] = this slice's weighted partial sums (overwritten). InvalidArgument for a bad
  /// layer, expert id, token count or span size names which; nothing is computed then. One thread at a time.
  /// Of a call with deferred experts it is handed the parts.
  virtual absl::Status Execute(const LayerCallView& call, absl::Span<float> out) = 0;
};

/// A call as the one or two that executors compute, in the order of their replies.
class SplitCall {
 public:
  /// REQUIRES: 0 <= call.deferred_experts < call.experts_per_token. Without deferred experts nothing is
  /// copied.
  void Split(const LayerCallView& call);
  /// Valid until the next Split, and as long as the call's spans are. Without deferred experts there is no
  /// deferred part.
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
