// WorkerService: the gRPC face of an expert worker, and the mailbox server beside it.
//
// Serves numoe.v1.ExpertWorker and grpc.health.v1 on one address (worker_listener.h), from before the weights
// are there: until Serve a handshake says how far the load is. The service draws a number
// when it serves, its instance, and refuses calls that are for another one. Over TCP without TLS, where
// anybody may ask, it is not drained. The destructor ends all sessions and removes the socket file. The
// executor and the progress must outlive the service. Main thread; Stats: any.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/mapped_weights.h"
#include "common/transport/tls_identity.h"
#include "expert_worker/experts/expert_statistics.h"
#include "expert_worker/experts/load_progress.h"
#include "expert_worker/service/mailbox_server.h"

namespace numoe::worker {

struct WorkerServiceOptions {
  std::string listen;  // unix:PATH or HOST:PORT
  uint64_t model_fingerprint = 0;
  bool slice_by_expert = false;
  int worker_index = 0;
  int worker_count = 1;
  int hidden_size = 0;
  int num_experts = 0;
  int experts_per_token = 0;
  std::string description;  // the start log line
  std::string arithmetic;   // what decides the numbers beside the weights, equal where they are alike
  bool shared_memory = true;
  std::optional<gid_t>
      shared_memory_group;           // whose processes may connect and share memory, beside our user's
  TlsFiles tls;                      // of HOST:PORT; not given: plain text
  MappedWeights mapped_weights;      // what lies behind experts_fd
  int experts_fd = -1;               // -1: the weights are not shared; outlives the service
  CallerThreads* callers = nullptr;  // the executor's, for sessions' threads; null: these run anywhere
  std::vector<int> nodes = {};       // where sessions' memory should lie; empty: anywhere
  const ExpertStatistics* statistics = nullptr;  // of the executor, which has them; null: it has none
};

struct WorkerServiceStats {
  uint64_t calls = 0;
  uint64_t rows = 0;
  int sessions = 0;
  std::optional<double> mailboxes_local;  // MailboxServer
};

class WorkerService {
 public:
  /// Answers at the address, and says how far the load is. Of the options only listen, hidden_size,
  /// shared_memory_group and tls count. UNAVAILABLE or INVALID_ARGUMENT names the flag and what is in the
  /// way.
  static absl::StatusOr<std::unique_ptr<WorkerService>> StartLoading(const WorkerServiceOptions& options,
                                                                     const LoadProgress& progress);
  /// The same and Serve at once, for weights that are there.
  static absl::StatusOr<std::unique_ptr<WorkerService>> Start(LayerExecutor& executor,
                                                              const WorkerServiceOptions& options);
  virtual ~WorkerService() = default;
  /// Sessions may begin. REQUIRES: called once; those four options are as before.
  virtual absl::Status Serve(LayerExecutor& executor, const WorkerServiceOptions& options) = 0;
  /// The address that clients use (a port 0 is resolved).
  virtual const std::string& address() const = 0;
  virtual WorkerServiceStats Stats() const = 0;
  /// NOT_SERVING, no new sessions. REQUIRES: Serve was called.
  virtual void Drain() = 0;
};

}  // namespace numoe::worker
