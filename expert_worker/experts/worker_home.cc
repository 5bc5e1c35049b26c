#include "expert_worker/experts/worker_home.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/threading/thread_binding.h"
#include "common/topology/control_groups.h"
#include "common/topology/memory_policy.h"
#include "common/topology/number_list.h"
#include "expert_worker/experts/expert_executor.h"

namespace numoe::worker {

PlacementRequest RequestFor(const ExecutorOptions& options) {
  return {.worker_index = options.slice.worker_index,
          .worker_count = options.slice.worker_count,
          .local_workers = options.local_workers,
          .nodes = options.numa_nodes,
          .threads = options.threads,
          .alone = options.alone};
}

PlacementRequest LimitByQuota(PlacementRequest request, const std::filesystem::path& root) {
  const std::optional<double> quota = CpuQuotaOf(root);
  const auto cpus = ReadStatusList(root, "Cpus_allowed_list:");
  // A quota of as much time as there are CPUs does not limit anything.
  if (!quota || request.threads > 0 || (cpus && *quota >= static_cast<double>(cpus->size()))) return request;
  request.threads_max = std::max(1, static_cast<int>(std::min(*quota, double{limits::kThreadsMax})));
  LogWarning(
      "a CPU quota leaves this process the time of {:.2f} CPUs: it computes with at most {} threads (unless "
      "--threads gives another number), and if other threads use the quota too, it is stopped in the middle "
      "of layers; give it whole CPUs (a cpuset) instead of a quota",
      *quota, request.threads_max);
  return request;
}

absl::StatusOr<Placement> FindHome(const PlacementRequest& request) {
  ASSIGN_OR_RETURN(const Topology topology, DetectTopology());
  ASSIGN_OR_RETURN(Placement home, PlanPlacement(topology, request));
  for (const std::string& warning : topology.warnings) LogWarning("topology: {}", warning);
  for (const std::string& note : topology.notes) LogDebug("topology: {}", note);
  if (!home.idle.empty()) {
    LogWarning(
        "no worker uses NUMA node{} {} if there {} {} worker{}: start a worker for each socket, or give this "
        "one several nodes with --numa-nodes",
        home.idle.size() == 1 ? "" : "s", fmt::join(home.idle, ", "),
        request.worker_count == 1 ? "is" : "are", request.worker_count, request.worker_count == 1 ? "" : "s");
  }
  if (home.left > 0) {
    LogWarning(
        "this worker leaves {} of its node's CPUs to other workers of the set, as if all {} workers ran on "
        "this host; give --local-workers the number of workers on this host ({} if that is right)",
        home.left, request.worker_count, request.worker_count);
  }
  return home;
}

void SettleAt(const Placement& home) {
  if (!BindThread(pthread_self(), home.node_cpus)) {
    LogWarning(
        "the kernel does not let this process bind itself to the CPUs of its node{} {}: all threads except "
        "the compute threads may run on other CPUs; did the cpuset shrink since the start?",
        home.nodes.size() == 1 ? "" : "s", fmt::join(home.nodes, ", "));
  }
  const auto policy = ReadInheritedPolicy("/");
  if (policy && !policy->KeepsTo({home.nodes.begin(), home.nodes.end()})) {
    LogWarning(
        "this process was started with the memory policy {}, but its home is node{} {}: it places its memory "
        "itself, as far as the kernel allows; start it without that policy",
        policy->text, home.nodes.size() == 1 ? "" : "s", fmt::join(home.nodes, ", "));
  }
  if (const absl::Status local = SetThreadMemoryPolicy(MemoryPolicy::kLocal, {}); !local.ok()) {
    LogInfo(
        "this process may set no memory policy ({}): its memory is on the nodes of the threads that write it "
        "first, and these threads are bound to their node",
        std::string(local.message()));
  }
}

}  // namespace numoe::worker
