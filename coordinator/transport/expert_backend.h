// ExpertBackend: how the model reaches its routed experts, wherever they are.
//
// One MoE layer call: hidden states and routing in, the weighted sum over the selected experts out.
// Implementations: in this process (local_backend.h), expert workers over shared memory or over gRPC
// (worker_pool.h). The model cannot tell them apart. Calls are made by one thread, the
// engine's; Start and Finish are separate so that shared experts run while the workers compute.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe {

/// One layer's routed work. All spans stay valid until Finish returns.
struct ExpertCall {
  LayerId layer = 0;
  int tokens = 0;
  int hidden_size = 0;
  int experts_per_token = 0;
  bool exact = false;                  // kernels may not choose by batch (deterministic serving)
  absl::Span<const float> hidden;      // [tokens, hidden_size], the normed input of the MoE block
  absl::Span<const ExpertId> experts;  // [tokens, experts_per_token], distinct within a token
  absl::Span<const float> weights;     // [tokens, experts_per_token], final combine weights
};

class ExpertBackend {
 public:
  virtual ~ExpertBackend() = default;

  /// Hands the call out. At most one call is outstanding. UNAVAILABLE: a slice is missing; the step must be
  /// replayed.
  virtual absl::Status Start(const ExpertCall& call) = 0;
  /// Waits for the outstanding call; adds the experts' weighted sum to `out` [tokens, hidden_size] in fp32.
  /// UNAVAILABLE: a worker died or missed its deadline; `out` is then unspecified and the step must be
  /// replayed.
  virtual absl::Status Finish(absl::Span<float> out) = 0;
  /// Blocks until every slice is served again or `deadline_ms` has passed (DEADLINE_EXCEEDED names the
  /// missing ones).
  virtual absl::Status AwaitReady(int64_t deadline_ms) = 0;
  /// True while every slice is served. Any thread.
  virtual bool Ready() const = 0;
};

}  // namespace numoe
