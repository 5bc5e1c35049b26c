// Preflight: what an operator should know about a machine before a worker runs on it.
//
// `numoe-expert-worker --preflight` prints the findings: topology, instruction sets, and every setting of
// kernel, cgroup and governor that costs speed, with what to do. It reads /proc, /sys and the cgroup files,
// and writes 64 MiB of memory from each node to see where it is allocated. It changes nothing, except that it
// creates the folder of reservations (common/topology/host_memory.h). A missing file (another kernel, another
// container runtime) is not a finding.
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

/// The memory that a worker would take, and its nodes (OS numbers).
struct WorkerOnNodes {
  WorkerNeeds needs;
  std::vector<int> nodes;
};

/// Returns findings about kernel and container settings under `root`, which is "/" except in tests.
/// `policies_allowed`: whether this process may set memory policies.
std::vector<Finding> CheckSettings(const std::filesystem::path& root, bool policies_allowed);
/// Returns "memory_policies": whether this process may choose the nodes of its memory; good without asking
/// the kernel if the memory can only be on the nodes of its CPUs.
Finding CheckPolicies(const std::filesystem::path& root);
/// Returns whether these workers of one machine fit into the memory that is not reserved by others
/// (`reservations` as for HostMemory::ReadReservations): "memory_limit", "memory_available" and, for their
/// nodes, "memory_on_nodes".
std::vector<Finding> CheckMemoryFor(const std::filesystem::path& root,
                                    const std::vector<WorkerOnNodes>& workers,
                                    const std::string& reservations);
/// Returns "reserved_pages": whether this number of bytes is free in such pages on `nodes`.
std::vector<Finding> CheckReservedPagesFor(const std::filesystem::path& root, HugePages pages, uint64_t bytes,
                                           const std::vector<int>& nodes);
/// Returns topology, instruction sets, pinning and settings of this machine and, with `workers`, the memory.
std::vector<Finding> Preflight(const PinningRequest& pinning, const std::vector<WorkerOnNodes>& workers,
                               const std::string& reservations);
/// Returns one line for each finding, "ok    ..." or "check ...: advice".
std::string ToString(const std::vector<Finding>& findings);

}  // namespace numoe::worker
