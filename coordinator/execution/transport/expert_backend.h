// ExpertBackend: how the model reaches its routed experts, wherever they are.
//
// A layer call (common/transport/layer_call.h) passes hidden states and routing, and returns the weighted sum
// over the selected experts. There is an implementation in this process (local_backend.h), and one for expert
// workers over shared memory or gRPC (expert_fan_out.h). The model cannot tell them apart; what only shared
// memory can do is a separate interface (direct_experts.h). Only the engine thread makes calls. Start and
// Finish are separate so that shared experts run while the workers compute. A call's deferred experts are
// computed after its other ones and have a separate reply, so that the next layer's attention runs meanwhile
// (expert deferral, https://doi.org/10.1145/3731569.3764843).
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

  /// Starts the call; its spans must stay valid until Finish returns. At most one call is outstanding;
  /// deferred replies of a step that was abandoned are dropped. Returns UNAVAILABLE if a slice is missing;
  /// the step must then be replayed.
  virtual absl::Status Start(const LayerCallView& call) = 0;
  /// Waits for the outstanding call, and adds the experts' weighted sum to `out` [tokens, hidden_size] in
  /// fp32. Returns UNAVAILABLE if a worker died or missed its deadline; `out` is then unspecified, and the
  /// step must be replayed.
  virtual absl::Status Finish(absl::Span<float> out) = 0;
  /// Does the same for the deferred experts of the call that was finished last, before the next one starts.
  virtual absl::Status FinishDeferred(absl::Span<float> /*out*/) {
    return absl::UnimplementedError("this backend defers no experts");
  }
  /// Waits until every slice is served again; returns DEADLINE_EXCEEDED, with the names of the missing
  /// workers, after `deadline_ms`.
  virtual absl::Status AwaitReady(int64_t deadline_ms) = 0;
  /// Returns whether every slice is served. Any thread.
  virtual bool Ready() const = 0;

  /// Reports that no request is running: until the next call, workers that compute in other numeric formats
  /// than those before them are accepted.
  virtual void OnIdle() {}
  /// Returns true once after workers were accepted that compute in other numeric formats. Until the caller
  /// has asked, calls fail; after that it must not use results that were computed before.
  virtual bool ConsumeFormatChange() { return false; }

  /// Returns the interface through which a device makes calls and reads weights itself; null if this
  /// backend's experts are in memory that cannot be shared. It lives as long as the backend.
  virtual DirectExperts* direct() { return nullptr; }
};

}  // namespace numoe::execution
