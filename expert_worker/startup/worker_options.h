// WorkerOptions: the settings of a worker, or of the supervisor of several workers, from the command line,
// the environment and the file of --config.
//
// ReadWorkerOptions reads every flag once (common/base/flags.h) and returns values, so that no other code
// reads the text of a flag. It also checks combinations of flags: INVALID_ARGUMENT names the flags, what was
// found and what is expected, also if a flag on the command line changes nothing in combination with the
// others (common/base/unused_flags.h). The results are plain values. The main thread calls it before any
// other thread starts.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/observe/logging.h"
#include "common/transport/tls_identity.h"
#include "expert_worker/experts/expert_executor.h"

namespace numoe::worker {

/// --supervise: how the workers of this host are started and watched.
struct FleetOptions {
  int worker_count = 0;      // slices on all hosts; 0 if the supervisor derives the number from its workers
  bool per_package = false;  // start a worker for each package (socket), not for each node
  std::chrono::milliseconds hung_after{60'000};
  std::chrono::milliseconds load_stalled_after{600'000};
};

struct WorkerOptions {
  std::string model;  // empty only if `preflight` checks the machine without a model
  std::string listen = "127.0.0.1:7070";
  std::optional<std::string> health_listen;  // nullopt if only `listen` answers health checks
  TlsFiles tls;
  bool shared_memory = true;  // layer calls may come through shared memory
  std::optional<gid_t> shared_memory_group;
  std::string metrics_host = "127.0.0.1";
  int metrics_port = 0;
  std::chrono::milliseconds drain_timeout{40'000};
  std::string memory_reservations = "auto";
  bool pinning_required = false;
  int exclusive_cpus = 0;             // number of CPUs promised to this process alone; 0 if unknown
  std::optional<FleetOptions> fleet;  // nullopt if this process is a worker itself
  bool preflight = false;             // check the machine, print what is wrong, and end
  bool core_dumps = false;
  ExecutorOptions executor;
  bool packed_given = false;  // --packed was given, which matters only for a folder made by numoe-pack
  LogOptions log{.program = "numoe-expert-worker"};
  std::vector<std::string> notes;  // warnings to log: flags of the environment or file that change nothing
};

/// --probe: ask for the health at this address, and end.
struct ProbeRequest {
  std::string address;
};

/// The exit code with which the program must end at once, because the parser has printed its text; the
/// address to probe; or the options of the worker or supervisor.
using WorkerCommand = std::variant<int, ProbeRequest, WorkerOptions>;

absl::StatusOr<WorkerCommand> ReadWorkerOptions(int argc, char** argv);

}  // namespace numoe::worker
