// WorkerLink: one live session with one expert worker, over shared memory or a gRPC stream.
//
// Connect does the handshake, checks that the worker speaks our protocol and serves our model, and opens the
// data path. Every call repeats the number of the worker process that answered the handshake, so that another
// one at the same address refuses it. Whichever the data path, the worker is asked for a sign of life each
// second. Send and Receive are called by the engine thread, one call at a time; Abort by any thread, to free
// a Receive that waits for a stuck worker. Any error means that the session is over: drop the link and
// connect again.
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
  bool map_experts = false;  // of workers on this host that share them
  std::optional<gid_t>
      shared_memory_group;  // whose processes are believed at a mailbox socket, beside our user's
  // How often a worker is asked for a sign of life, and how long that may take.
  int64_t heartbeat_ms = 1'000;
  int64_t heartbeat_deadline_ms = 5'000;  // TCP gets over 2 s of lost packets in 4.3
  std::shared_ptr<TlsIdentityWatch>
      tls;  // for HOST:PORT; null: plain text. Sockets are files with permissions
};

struct WorkerIdentity {
  bool slice_by_expert = false;
  int worker_index = 0;
  int worker_count = 1;
  uint64_t instance = 0;  // of the process
  std::string description;
  std::string arithmetic;  // what decides its numbers beside the weights
  bool shared_memory = false;
};

/// The payload of an error of Connect that MovesOfLoad reads: decimal digits.
inline constexpr char kMovesOfLoad[] = "numoe.v1.Loading.moves";
/// Returns a number if Connect failed because the worker loads its weights; another number than the last time
/// means that the load has moved. Returns nullopt for another error.
std::optional<uint64_t> MovesOfLoad(const absl::Status& error);

class WorkerLink {
 public:
  /// UNAVAILABLE: nobody answers, or the worker loads its weights (MovesOfLoad). FAILED_PRECONDITION: another
  /// protocol, model or shape, certificates that one of the two refuses, or another user's process at the
  /// mailbox socket; says which, and what to do. Neither names the worker.
  static absl::StatusOr<std::unique_ptr<WorkerLink>> Connect(const std::string& address,
                                                             const LinkOptions& options);
  virtual ~WorkerLink() = default;

  virtual const WorkerIdentity& identity() const = 0;
  virtual absl::Status Send(uint64_t call_id, const LayerCallView& call) = 0;
  /// out += the worker's partial sums, which are waited for at most `deadline_ms`. A deferring call's
  /// deferred part comes second, before the next Send.
  virtual absl::Status Receive(uint64_t call_id, ReplyPart part, int64_t deadline_ms,
                               absl::Span<float> out) = 0;
  /// Leaves the mailboxes to a device, and takes them back after `calls` calls, `deferring` of them with
  /// deferred experts. UNIMPLEMENTED: no shared memory.
  virtual absl::StatusOr<DirectPort> BeginDirect() {
    return absl::UnimplementedError("the worker is not reached through shared memory");
  }
  virtual void EndDirect(int /*calls*/, int /*deferring*/) {}
  /// The worker's weights; null: it does not share them, or nobody wants them.
  virtual std::shared_ptr<ExpertMemory> experts() const { return nullptr; }
  /// What the worker has counted, over its control service; waits at most `deadline_ms`. Any thread.
  virtual absl::StatusOr<ExpertRows> CountedRows(int64_t deadline_ms) = 0;
  /// UNAVAILABLE once the peer is known to be gone, and how that was seen. To be called often, by one thread.
  virtual absl::Status Alive() = 0;
  /// Ends the session for both ends. Any thread.
  virtual void Abort() = 0;
};

}  // namespace numoe::execution
