// The home of a worker: the NUMA nodes and CPUs that it uses.
//
// LimitByQuota takes a CPU quota into account: if there are more threads than the quota has CPU time for,
// they are stopped in the middle of a layer. FindHome reads the machine's topology, plans (PlanPlacement),
// and logs what an operator should know. SettleAt binds the whole process to the home: threads that it starts
// afterwards run on the home's CPUs. So what they write first - heap, stacks, scratch, mailbox segments - is
// on the home's nodes, and NUMA balancing leaves it there. Call these on the main thread of a daemon, before
// any other thread starts.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "common/topology/topology.h"

namespace numoe::worker {

struct ExecutorOptions;  // expert_executor.h

/// Returns what FindHome needs to know about a worker with these options.
PlacementRequest RequestFor(const ExecutorOptions& options);
/// Limits the threads by the quota of this process's cgroups under `root` ("/" except in tests), and warns if
/// that leaves CPUs idle.
PlacementRequest LimitByQuota(PlacementRequest request, const std::filesystem::path& root = "/");
/// INVALID_ARGUMENT names the flag that does not fit this machine.
absl::StatusOr<Placement> FindHome(const PlacementRequest& request);
/// If the kernel refuses a part of this, it logs that and leaves that part unchanged.
void SettleAt(const Placement& home);

}  // namespace numoe::worker
