// ExpertBackend: how the model reaches its routed experts, wherever they are.
//
// One MoE layer call (common/transport/layer_call.h): hidden states and routing in, the weighted sum over the
// selected experts out. Implementations: in this process (local_backend.h), expert workers over shared memory
// or over gRPC (expert_fan_out.h). The model cannot tell them apart; what only shared memory can do is an
// interface of its own (direct_experts.h). Calls are made by one thread, the engine's; Start and Finish are
// separate so that shared experts run while the workers compute. A call's deferred experts are computed after
// its others and waited for by themselves, so that the next layer's attention runs meanwhile (expert
// deferral, https://doi.org/10.1145/3731569.3764843).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/transport/layer_call.h"

namespace numoe::execution {

class DirectExperts;  // direct_experts.h

class ExpertBackend {
 public:
  virtual ~ExpertBackend() = default;

  /// Hands the call out; its spans stay valid until Finish returns. At most one call is outstanding; deferred
  /// experts of a step that was given up are dropped. UNAVAILABLE: a slice is missing; the step must be
  /// replayed.
  virtual absl::Status Start(const LayerCallView& call) = 0;
  /// Waits for the outstanding call; adds the experts' weighted sum to `out` [tokens, hidden_size] in fp32.
  /// UNAVAILABLE: a worker died or missed its deadline; `out` is then unspecified and the step must be
  /// replayed.
  virtual absl::Status Finish(absl::Span<float> out) = 0;
  /// The same for the deferred experts of the call that was finished last, before the next one starts.
  virtual absl::Status FinishDeferred(absl::Span<float> /*out*/) {
    return absl::UnimplementedError("this backend defers no experts");
  }
  /// Blocks until every slice is served again or `deadline_ms` has passed (DEADLINE_EXCEEDED names the
  /// missing ones).
  virtual absl::Status AwaitReady(int64_t deadline_ms) = 0;
  /// True while every slice is served. Any thread.
  virtual bool Ready() const = 0;

  /// No answer is in the making: workers that compute in other formats than those before may take their
  /// places from now on, until the next call.
  virtual void AnswersEnded() {}
  /// True once after workers came that compute in other formats: no call is made before this was asked, and
  /// what was computed before must not be gone on with.
  virtual bool TakeChange() { return false; }

  /// How a device makes calls and reads weights itself; null: no expert of this backend lies in memory that
  /// can be shared. Lives as long as the backend.
  virtual DirectExperts* direct() { return nullptr; }
};

}  // namespace numoe::execution
