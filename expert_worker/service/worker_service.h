// WorkerService: the gRPC service of an expert worker, and its mailbox server.
//
// It serves numoe.v1.ExpertWorker and grpc.health.v1 on one address (worker_listener.h), and begins before
// the weights are loaded: until Serve is called, a handshake is answered with the progress of the load. Serve
// draws a random number, the instance, and the service refuses calls for another instance. Over TCP without
// TLS, where everyone may ask, it refuses to drain. The destructor ends all sessions and removes the socket
// file. The executor and the progress must outlive the service. Main thread; any thread may call Stats.
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
  std::string description;      // the start log line
  std::string numeric_formats;  // the same for workers that compute alike
  bool shared_memory = true;
  std::optional<gid_t> shared_memory_group;  // its processes may connect and share memory, too
  TlsFiles tls;                              // for HOST:PORT; without files it is plain text
  MappedWeights mapped_weights;              // where each layer is in experts_fd
  int experts_fd = -1;                       // -1 if the weights are not shared; outlives the service
  CallerThreads* callers = nullptr;  // the executor's, for sessions' threads; null means these run anywhere
  std::vector<int> nodes = {};       // where sessions' memory should be; empty means any node
  const ExpertStatistics* statistics = nullptr;  // the executor's; null if it has none
};

struct WorkerServiceStats {
  uint64_t calls = 0;
  uint64_t rows = 0;
  int sessions = 0;
  std::optional<double> mailboxes_local;  // see MailboxServer
};

class WorkerService {
 public:
  /// Listens at the address and answers handshakes with the progress of the load. It uses only listen,
  /// hidden_size, shared_memory_group and tls of the options. UNAVAILABLE or INVALID_ARGUMENT names the flag
  /// and what is wrong.
  static absl::StatusOr<std::unique_ptr<WorkerService>> StartLoading(const WorkerServiceOptions& options,
                                                                     const LoadProgress& progress);
  /// Calls Start and then Serve, for weights that are loaded already.
  static absl::StatusOr<std::unique_ptr<WorkerService>> Start(LayerExecutor& executor,
                                                              const WorkerServiceOptions& options);
  virtual ~WorkerService() = default;
  /// From now on sessions may begin. REQUIRES: it is called once, and with the same values of those four
  /// options.
  virtual absl::Status Serve(LayerExecutor& executor, const WorkerServiceOptions& options) = 0;
  /// Returns the address that clients use (a port 0 is replaced by the real one).
  virtual const std::string& address() const = 0;
  virtual WorkerServiceStats Stats() const = 0;
  /// Sets NOT_SERVING and refuses new sessions. REQUIRES: Serve was called.
  virtual void Drain() = 0;
};

}  // namespace numoe::worker
