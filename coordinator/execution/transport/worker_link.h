// WorkerLink: a session with one expert worker, over shared memory or a gRPC stream.
//
// Connect does the handshake, checks that the worker speaks the same protocol and serves the same model, and
// opens the data path. Every call repeats the number of the worker process that answered the handshake, so
// that another process at the same address refuses it. With both data paths the worker gets a heartbeat each
// second (heartbeat.h). The engine thread calls Send and Receive, for one call at a time; any thread may call
// Abort, to end a Receive that waits for a stuck worker. Any error means that the session is over: drop the
// link and connect again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/transport/call_codec.h"
#include "common/transport/tls_identity.h"
#include "coordinator/execution/transport/direct_experts.h"
#include "coordinator/execution/transport/expert_memory.h"
#include "coordinator/execution/transport/expert_rows.h"

namespace numoe::execution {

enum class DataPath : uint8_t { kAuto, kSharedMemory, kGrpc };

struct LinkOptions {
  DataPath data_path = DataPath::kAuto;
  uint64_t model_fingerprint = 0;
  int hidden_size = 0;
  int num_experts = 0;
  int64_t call_deadline_ms = 30'000;
  int spin_us = 300;
  bool map_experts = false;  // map the weights of workers on this host that share them
  std::optional<gid_t>
      shared_memory_group;  // accept its processes at a mailbox socket, in addition to this user's
  // How often a worker gets a heartbeat, and how long its answer may take.
  int64_t heartbeat_ms = 1'000;
  int64_t heartbeat_deadline_ms = 5'000;  // TCP recovers from 2 s of lost packets in 4.3 s
  std::shared_ptr<TlsIdentityWatch>
      tls;  // for HOST:PORT; plain text if null. Unix sockets are files with permissions and need no TLS
};

struct WorkerIdentity {
  bool slice_by_expert = false;
  int worker_index = 0;
  int worker_count = 1;
  uint64_t instance = 0;  // the number that the process drew when it started
  std::string description;
  std::string numeric_formats;  // the formats that, with the weights, decide its results
  bool shared_memory = false;
};

/// The key of the payload that MovesOfLoad reads from an error of Connect; the payload is decimal digits.
inline constexpr char kMovesOfLoad[] = "numoe.v1.Loading.moves";
/// Returns a number if Connect failed because the worker is still loading its weights; if the number has
/// changed since the last attempt, loading has made progress. Returns nullopt for another error.
std::optional<uint64_t> MovesOfLoad(const absl::Status& error);

class WorkerLink {
 public:
  /// Returns UNAVAILABLE if the worker does not answer or is still loading its weights (MovesOfLoad). Returns
  /// FAILED_PRECONDITION for another protocol, model or shape, for certificates that one of the two refuses,
  /// or for another user's process at the mailbox socket; it says which, and what to do. Neither names the
  /// worker.
  static absl::StatusOr<std::unique_ptr<WorkerLink>> Connect(const std::string& address,
                                                             const LinkOptions& options);
  virtual ~WorkerLink() = default;

  virtual const WorkerIdentity& identity() const = 0;
  virtual absl::Status Send(uint64_t call_id, const LayerCallView& call) = 0;
  /// Waits at most `deadline_ms` for the worker's partial sums and adds them to `out`. If the call has
  /// deferred experts, their part must be received second, before the next Send.
  virtual absl::Status Receive(uint64_t call_id, ReplyPart part, int64_t deadline_ms,
                               absl::Span<float> out) = 0;
  /// BeginDirect leaves the mailboxes to a device. EndDirect takes them back after `calls` calls, `deferring`
  /// of them with deferred experts. Returns UNIMPLEMENTED without shared memory.
  virtual absl::StatusOr<MailboxEndpoint> BeginDirect() {
    return absl::UnimplementedError("the worker is not reached through shared memory");
  }
  virtual void EndDirect(int /*calls*/, int /*deferring*/) {}
  /// Returns the worker's weights; null if it does not share them, or if LinkOptions does not request them.
  virtual std::shared_ptr<ExpertMemory> experts() const { return nullptr; }
  /// Requests the worker's counts from its control service; waits at most `deadline_ms`. Any thread.
  virtual absl::StatusOr<ExpertRows> CountedRows(int64_t deadline_ms) = 0;
  /// Returns UNAVAILABLE, and what showed it, once the worker is known to be lost. Call it often, from one
  /// thread.
  virtual absl::Status Alive() = 0;
  /// Ends the session on both sides. Any thread.
  virtual void Abort() = 0;
};

}  // namespace numoe::execution
