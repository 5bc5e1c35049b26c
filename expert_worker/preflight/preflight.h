// Preflight: what an operator should know of a node before a worker lives on it.
//
// `numoe-expert-worker --preflight` prints the findings: topology, instruction sets, and every setting of
// kernel, cgroup and governor that costs speed, with what to do. Reads /proc, /sys and the cgroup files,
// writes 64 MiB of memory from each node to see where it comes to lie, and changes nothing but that the
// folder of reservations (common/topology/host_memory.h) is made. A file that does not exist (another kernel,
// another container runtime) is no finding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/topology/huge_pages.h"
#include "expert_worker/preflight/finding.h"
#include "expert_worker/preflight/pinning.h"
#include "expert_worker/preflight/worker_memory.h"

namespace numoe::worker {

/// What a worker would take, and on which nodes (OS numbers).
struct WorkerOnNodes {
  WorkerNeeds needs;
  std::vector<int> nodes;
};

/// Findings about kernel and container settings below `root`, "/" but in tests. `policies_allowed`: whether
/// this process may set memory policies.
std::vector<Finding> CheckSettings(const std::filesystem::path& root, bool policies_allowed);
/// "memory_policies": whether this process may say on which nodes its memory lies, where it could lie on
/// others than its CPUs'. Asks the kernel.
Finding CheckPolicies(const std::filesystem::path& root);
/// Whether these workers of one machine have the memory beside what others have reserved (`reservations` as
/// HostMemory::Look takes it): "memory_limit", "memory_available" and, of their nodes, "memory_on_nodes".
std::vector<Finding> CheckMemoryFor(const std::filesystem::path& root,
                                    const std::vector<WorkerOnNodes>& workers,
                                    const std::string& reservations);
/// Whether so many bytes of such pages are free on `nodes`: "reserved_pages".
std::vector<Finding> CheckReservedPagesFor(const std::filesystem::path& root, HugePages pages, uint64_t bytes,
                                           const std::vector<int>& nodes);
/// Topology, instruction sets, pinning and settings of this machine; with `workers` the memory too.
std::vector<Finding> Preflight(const PinningRequest& pinning, const std::vector<WorkerOnNodes>& workers,
                               const std::string& reservations);
/// One line each, "ok    ..." or "check ...: advice".
std::string ToString(const std::vector<Finding>& findings);

}  // namespace numoe::worker
