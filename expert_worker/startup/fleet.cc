#include "expert_worker/startup/fleet.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "expert_worker/service/listen_address.h"
#include "expert_worker/startup/worker_endpoints.h"
#include "expert_worker/startup/worker_placement.h"
#include "expert_worker/supervisor/supervisor.h"

namespace numoe::worker {
namespace {

// Returns an address that no other process on this host uses and none can guess, without the worker's number
// at the end.
std::string PrivateHealth() {
  return fmt::format("{}numoe-health-{}-{:016x}-", kAbstractPrefix, getpid(), RandomId());
}

}  // namespace

absl::StatusOr<FleetPlan> PlanFleetFor(const WorkerOptions& options, const Topology& topology) {
  NUMOE_CHECK(options.fleet.has_value());
  NUMOE_CHECK(options.executor.numa_nodes.empty()) << "the plan chooses the nodes of each worker";
  return PlanFleet(topology, {.local_workers = options.executor.local_workers,
                              .first_index = options.executor.slice.worker_index,
                              .worker_count = options.fleet->worker_count,
                              .per_package = options.fleet->per_package,
                              .own_home = options.pinning_required,
                              .listen = options.listen,
                              .metrics_port = options.metrics_port,
                              .health = options.tls.given() ? PrivateHealth() : ""});
}

absl::Status RunFleet(const WorkerOptions& options, const std::vector<std::string>& arguments) {
  BlockChildSignals();
  RETURN_IF_ERROR(OpenTls(options).status());
  RETURN_IF_ERROR(ClaimNodes(options).status());
  ASSIGN_OR_RETURN(const Topology topology, DetectTopology());
  ASSIGN_OR_RETURN(const FleetPlan plan, PlanFleetFor(options, topology));
  for (const FleetWorker& worker : plan.workers)
    RETURN_IF_ERROR(CheckListenAddress(worker.listen, options.shared_memory_group));
  ASSIGN_OR_RETURN(const auto health, StartHealth(options));
  for (const std::string& warning : topology.warnings) LogWarning("topology: {}", warning);
  for (const std::string& note : topology.notes) LogInfo("topology: {}", note);
  LogInfo("supervising {}", plan.ToString());
  // A worker that has not ended 10 s after its own drain timeout is stuck.
  constexpr std::chrono::milliseconds kGrace{10'000};
  const std::chrono::milliseconds drain_max = options.drain_timeout + kGrace;
  std::error_code error;
  return Supervise(plan,
                   {.program = std::filesystem::read_symlink("/proc/self/exe", error).string(),
                    .arguments = arguments,
                    .restarts = {},
                    .hangs = {.serving = std::max(options.fleet->hung_after, drain_max),
                              .loading = options.fleet->load_stalled_after},
                    .drain_max = drain_max},
                   health.get());
}

}  // namespace numoe::worker
