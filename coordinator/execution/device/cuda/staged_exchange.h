// StagedExchange: sends routed work to the workers through the host: hidden states and routes are copied to
// pinned memory, the host calls the backend, and the sums are copied back.
//
// Used if workers are on other hosts, and by steps that are not captured. Each call has its own rows of the
// pinned memory, so the rows of one half may be filled while the workers compute the other half. Errors are
// UNAVAILABLE if the step may be repeated. One thread, the engine's.
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
  /// Enqueues the copy to pinned memory; a call for other rows may be in flight.
  void Stage(const RoutedCall& call);
  /// Waits for the staged copy, but not for work that was enqueued later, and makes the call.
  absl::Status Start(const RoutedCall& call);
  /// residual += the workers' sums. `call` is the call that was passed to Start.
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
  // Host memory [rows_max, hidden] and [rows_max, experts_per_token], allocated at the first call.
  std::unique_ptr<Memory> hidden_, sums_, deferred_, routes_, weights_;
  Event ready_ = nullptr;  // the call that was staged last has been copied to the host
  absl::Status reserved_;  // the result of the allocation for the staged call
};

}  // namespace numoe::execution::cuda
