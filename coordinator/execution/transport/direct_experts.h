// DirectExperts: what only workers on this host offer, because they can share memory.
//
// A device that can write to shared memory uses the workers' mailboxes itself, without the host between two
// layers, and reads the weights that the workers share. An ExpertBackend may have this interface
// (ExpertBackend::direct); a device asks for it once, when the model is loaded. Each call then answers
// whether every worker can be reached in this way at the moment. Engine thread only.
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
struct MailboxEndpoint {
  uint64_t instance = 0;                // the worker process's number, which every call repeats
  absl::Span<std::byte> segment;        // the shared memory that contains everything below
  std::shared_ptr<const void> mapping;  // keeps it mapped: a device pins it beyond the session's end
  absl::Span<std::byte> request;        // slot
  uint32_t* request_published = nullptr;
  uint64_t* request_length = nullptr;
  absl::Span<const std::byte> reply;  // slot
  const uint32_t* reply_published = nullptr;
  absl::Span<const std::byte> deferred_reply;  // slot for the deferred experts' sums
  const uint32_t* deferred_published = nullptr;
  uint32_t requests = 0;  // number published so far
  uint32_t replies = 0;   // number received so far
  uint32_t deferred = 0;  // number of deferred replies received so far
};

/// All layer calls of a step that a device makes: call i has the id first_call_id + i at every endpoint.
struct DirectStep {
  std::vector<MailboxEndpoint> endpoints;  // in the order in which the replies are added up
  uint64_t first_call_id = 0;
};

class DirectExperts {
 public:
  virtual ~DirectExperts() = default;

  /// Returns the weights of all workers, in slice order, as they are mapped now; empty if a worker does not
  /// share its weights or is not connected.
  virtual std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() = 0;

  /// Leaves the workers' mailboxes to a device until EndDirect, and keeps the workers awake. `*release`
  /// becomes 1 if a worker died or missed the deadline: a device that waits for its reply must then give up.
  /// Returns UNIMPLEMENTED if a worker is not reached through shared memory (use ExpertBackend's Start and
  /// Finish), and UNAVAILABLE if a slice is missing.
  virtual absl::StatusOr<DirectStep> BeginDirect(std::atomic<uint32_t>* release) = 0;
  /// Takes the mailboxes back after the device has made `calls` calls at every endpoint, `deferring` of them
  /// with deferred experts. If `result` is an error, ends the sessions and returns UNAVAILABLE.
  virtual absl::Status EndDirect(int calls, int deferring, const absl::Status& result) = 0;
};

}  // namespace numoe::execution
