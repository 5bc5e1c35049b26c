// The worker's flags: what one worker is told, and what a supervisor of several is.
//
// ParseWorkerFlags reads command line, environment and file (common/base/flags.h); CompleteFlags checks what
// no single flag shows and fills in what follows from others: INVALID_ARGUMENT names the flags.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/observe/logging.h"
#include "common/transport/tls_identity.h"
#include "expert_worker/experts/expert_executor.h"

namespace numoe {

struct WorkerFlags {
  std::string model;
  std::string listen = "127.0.0.1:7070";
  std::string health_listen = "none";
  TlsFiles tls;
  std::string slice = "intermediate";
  std::string packed = "map";
  std::string metrics_host = "127.0.0.1";
  int metrics_port = -1;  // by worker_index
  bool no_shared_memory = false;
  std::string ring_group_name;
  std::optional<gid_t> ring_group;  // the same, looked up
  std::string hugepages = "off";
  int64_t drain_timeout_ms = 40'000;
  std::string memory_reservations = "auto";
  std::string pinning = "preferred";
  int exclusive_cpus = 0;
  bool supervise = false;
  std::string worker_per = "node";
  int64_t hung_after_ms = 60'000;
  int64_t load_stalled_after_ms = 600'000;
  bool worker_count_given = false;
  bool preflight = false;
  std::string probe;
  bool core_dumps = false;
  ExecutorOptions executor;
  LogOptions log{.program = "numoe-expert-worker"};
};

/// Exit code to leave with at once, or -1 to go on.
int ParseWorkerFlags(int argc, char** argv, WorkerFlags& f);
absl::Status CompleteFlags(WorkerFlags& f);

}  // namespace numoe
