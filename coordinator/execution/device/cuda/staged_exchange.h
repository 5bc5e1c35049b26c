// StagedExchange: routed work on its way to the workers and back through the host: hidden states and routes
// come to pinned memory, the host calls the backend, the sums go back.
//
// For workers on other hosts, and for steps that are not captured. A call has its own rows of the pinned
// memory, so one half's may be filled while the other's are with the workers. Errors are UNAVAILABLE where
// the step may be made again. One thread, the engine's.
#pragma once

#include <memory>

#include "coordinator/execution/device/cuda/routed_call.h"
#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe::execution::cuda {

class StagedExchange {
 public:
  static absl::StatusOr<std::unique_ptr<StagedExchange>> Create(int rows_max, Runtime& runtime,
                                                                Stream stream);

  void Connect(ExpertBackend& experts) { experts_ = &experts; }
  /// Enqueues the way to pinned memory; another call of other rows may be out.
  void Stage(const RoutedCall& call);
  /// Waits for what was staged, not for what was enqueued since, and makes the call.
  absl::Status Start(const RoutedCall& call);
  /// residual += the workers' sums. `call` is the one that Start was called with.
  absl::Status Finish(const RoutedCall& call, float* residual);
  absl::Status FinishDeferred(const RoutedCall& call, float* residual);

 private:
  StagedExchange(int rows_max, Runtime& runtime, Stream stream)
      : rows_max_(rows_max), runtime_(runtime), stream_(stream) {}
  absl::Status Reserve(const RoutedCall& call);
  absl::Span<float> Cleared(const RoutedCall& call, const Memory& sums) const;
  void EnqueueAdd(absl::Span<const float> sums, const Memory& memory, float* residual);

  const int rows_max_;
  Runtime& runtime_;
  const Stream stream_;
  ExpertBackend* experts_ = nullptr;
  // [rows_max, hidden] and [rows_max, experts_per_token] of host memory, made at the first call.
  std::unique_ptr<Memory> hidden_, sums_, deferred_, routes_, weights_;
  Event ready_ = nullptr;  // what was staged last is on the host
  absl::Status reserved_;  // for the staged call
};

}  // namespace numoe::execution::cuda
