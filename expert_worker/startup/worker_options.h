// WorkerOptions: what the command line, the environment and the file tell one worker, or the supervisor of
// several.
//
// ReadWorkerOptions reads every flag once (common/base/flags.h) and hands out values, not texts: nothing
// behind it looks at a flag's text again. What no single flag shows is checked here, too: INVALID_ARGUMENT
// names the flags, what was found and what is expected. Values, no owner. Main thread, before any other
// thread starts.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "common/observe/logging.h"
#include "common/transport/tls_identity.h"
#include "expert_worker/experts/expert_executor.h"

namespace numoe::worker {

/// --supervise: how the workers of this host are started and watched.
struct FleetOptions {
  int worker_count = 0;      // slices in all; 0: as many as it starts
  bool per_package = false;  // a worker for each package (socket), not for each node
  std::chrono::milliseconds hung_after{60'000};
  std::chrono::milliseconds load_stalled_after{600'000};
};

struct WorkerOptions {
  std::string model;  // empty only where `preflight` is to look at the machine alone
  std::string listen = "127.0.0.1:7070";
  std::optional<std::string> health_listen;  // nullopt: health is asked at `listen` only
  TlsFiles tls;
  bool shared_memory = true;  // layer calls may come through it
  std::optional<gid_t> shared_memory_group;
  std::string metrics_host = "127.0.0.1";
  int metrics_port = 0;
  std::chrono::milliseconds drain_timeout{40'000};
  std::string memory_reservations = "auto";
  bool pinning_required = false;
  int exclusive_cpus = 0;             // that were promised; 0: not known
  std::optional<FleetOptions> fleet;  // nullopt: this process is a worker itself
  bool preflight = false;             // look at the machine, say what is wrong, and end
  bool core_dumps = false;
  ExecutorOptions executor;
  LogOptions log{.program = "numoe-expert-worker"};
};

/// --probe: ask the health of this address, and end.
struct ProbeRequest {
  std::string address;
};

/// The exit code to leave with at once, where the parser has said what there is to say; what to ask; or what
/// to be.
using WorkerCommand = std::variant<int, ProbeRequest, WorkerOptions>;

absl::StatusOr<WorkerCommand> ReadWorkerOptions(int argc, char** argv);

}  // namespace numoe::worker
