// WorkerService: the gRPC face of an expert worker, and the mailbox server beside it.
//
// Serves numoe.v1.ExpertWorker and grpc.health.v1 on one address (unix:PATH or HOST:PORT). A stale socket
// file of a dead process is replaced; one that a live process serves is an error naming it. The service draws
// a number when it starts, its instance, and refuses calls that are for another one. Who asks costs at most
// what common/transport/transport_limits.h allows: streams, threads, bytes of a message. With a shared-memory
// group its processes, too, may connect to the socket's file, at no moment anybody else. Over TCP without
// TLS, where anybody may ask, it is not drained. The destructor ends all sessions and removes the socket
// file. The executor must outlive the service.
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
  static absl::StatusOr<std::unique_ptr<WorkerService>> Start(LayerExecutor& executor,
                                                              const WorkerServiceOptions& options);
  virtual ~WorkerService() = default;
  /// The address that clients use (a port 0 is resolved).
  virtual const std::string& address() const = 0;
  virtual WorkerServiceStats Stats() const = 0;
  /// NOT_SERVING, no new sessions.
  virtual void Drain() = 0;
};

}  // namespace numoe::worker
