// A worker's home: the NUMA nodes and CPUs that it lives on.
//
// LimitByQuota lets a CPU quota count: more threads than it has CPUs' time for are stopped in the middle of a
// layer. FindHome looks at the machine, plans (PlanPlacement) and logs what an operator should know. SettleAt
// keeps a whole process there: the threads that it starts afterwards run on the home's CPUs, so that what
// they write first - heap, stacks, scratch, mailbox segments - lies on the home's nodes, and NUMA balancing
// leaves it there. For the main thread of a daemon, before any other thread starts.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "common/topology/topology.h"

namespace numoe::worker {

struct ExecutorOptions;  // expert_executor.h

/// Where a worker with these options asks to live.
PlacementRequest RequestFor(const ExecutorOptions& options);
/// With the quota of this process's cgroups, below `root` ("/" but in tests), and a warning where it leaves
/// CPUs idle.
PlacementRequest LimitByQuota(PlacementRequest request, const std::filesystem::path& root = "/");
/// INVALID_ARGUMENT names the flag that does not fit this machine.
absl::StatusOr<Placement> FindHome(const PlacementRequest& request);
/// What the kernel refuses is logged, and left as it was.
void SettleAt(const Placement& home);

}  // namespace numoe::worker
