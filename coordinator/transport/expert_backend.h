// ExpertBackend: how the model reaches its routed experts, wherever they are.
//
// One MoE layer call: hidden states and routing in, the weighted sum over the selected experts out.
// Implementations: in this process (local_backend.h), expert workers over shared memory or over gRPC
// (worker_pool.h). The model cannot tell them apart. Calls are made by one thread, the
// engine's; Start and Finish are separate so that shared experts run while the workers compute. A call's
// deferred experts are computed after its others and waited for by themselves, so that the next layer's
// attention runs meanwhile (expert deferral, https://doi.org/10.1145/3731569.3764843).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe {

/// One layer's routed work. All spans stay valid until Finish returns.
struct ExpertCall {
  LayerId layer = 0;
  int tokens = 0;
  int hidden_size = 0;
  int experts_per_token = 0;
  int deferred_experts = 0;            // the last so many of each token are for FinishDeferred
  bool exact = false;                  // kernels may not choose by batch (deterministic serving)
  absl::Span<const float> hidden;      // [tokens, hidden_size], the normed input of the MoE block
  absl::Span<const ExpertId> experts;  // [tokens, experts_per_token], distinct within a token
  absl::Span<const float> weights;     // [tokens, experts_per_token], final combine weights
};

/// One worker's mailboxes, for a device that reaches them itself (common/transport/CONTRACT.md).
struct DirectPort {
  uint64_t instance = 0;                // of the worker process, which every call repeats
  absl::Span<std::byte> segment;        // shared memory that holds all that follows
  std::shared_ptr<const void> mapping;  // keeps it mapped: a device pins it beyond the session's end
  absl::Span<std::byte> request;        // slot
  uint32_t* request_published = nullptr;
  uint64_t* request_length = nullptr;
  absl::Span<const std::byte> reply;  // slot
  const uint32_t* reply_published = nullptr;
  absl::Span<const std::byte> deferred_reply;  // slot of the deferred experts' sums
  const uint32_t* deferred_published = nullptr;
  uint32_t requests = 0;  // published and ...
  uint32_t replies = 0;   // ... received so far
  uint32_t deferred = 0;  // the same of deferred replies
};

/// All of a step's layer calls, made by a device: call i has the id first_call_id + i at every port.
struct DirectStep {
  std::vector<DirectPort> ports;  // in the order in which the replies are added up
  uint64_t first_call_id = 0;
};

class ExpertMemory;  // expert_memory.h

class ExpertBackend {
 public:
  virtual ~ExpertBackend() = default;

  /// All workers' weights, in slice order, as they are mapped now. Empty: some worker does not share them, or
  /// is away.
  virtual std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() { return {}; }

  /// Leaves the workers' mailboxes to a device until EndDirect, and keeps the workers awake. `*release`
  /// becomes 1 when a worker died or missed the deadline: who waits for its reply must give up.
  /// UNIMPLEMENTED: a worker is not reached through shared memory; use Start and Finish. UNAVAILABLE: a slice
  /// is missing.
  virtual absl::StatusOr<DirectStep> BeginDirect(std::atomic<uint32_t>* /*release*/) {
    return absl::UnimplementedError("the experts are not reached through shared memory");
  }
  /// The device made `calls` calls at every port, `deferring` of them with deferred experts, or failed: then
  /// the sessions are ended and the result is UNAVAILABLE.
  virtual absl::Status EndDirect(int /*calls*/, int /*deferring*/, const absl::Status& result) {
    return result;
  }

  /// Hands the call out. At most one call is outstanding; what a step that was given up left is dropped.
  /// UNAVAILABLE: a slice is missing; the step must be replayed.
  virtual absl::Status Start(const ExpertCall& call) = 0;
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
};

}  // namespace numoe
