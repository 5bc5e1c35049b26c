// DirectExperts: what only workers on this host offer, because their memory can be shared.
//
// A device that can write to shared memory drives the workers' mailboxes itself, without the host between two
// layers, and reads the weights that the workers share. An ExpertBackend has this interface or has not
// (expert_backend.h); a device asks once, when the model is loaded. Whether every worker can be reached this
// way just now is what each call answers. Called by the engine thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace numoe::execution {

class ExpertMemory;  // expert_memory.h

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

class DirectExperts {
 public:
  virtual ~DirectExperts() = default;

  /// All workers' weights, in slice order, as they are mapped now. Empty: some worker does not share them, or
  /// is away.
  virtual std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() = 0;

  /// Leaves the workers' mailboxes to a device until EndDirect, and keeps the workers awake. `*release`
  /// becomes 1 when a worker died or missed the deadline: who waits for its reply must give up.
  /// UNIMPLEMENTED: a worker is not reached through shared memory; use ExpertBackend's Start and Finish.
  /// UNAVAILABLE: a slice is missing.
  virtual absl::StatusOr<DirectStep> BeginDirect(std::atomic<uint32_t>* release) = 0;
  /// The device made `calls` calls at every port, `deferring` of them with deferred experts, or failed: then
  /// the sessions are ended and the result is UNAVAILABLE.
  virtual absl::Status EndDirect(int calls, int deferring, const absl::Status& result) = 0;
};

}  // namespace numoe::execution
