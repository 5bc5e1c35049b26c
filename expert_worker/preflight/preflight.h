// Preflight: what an operator should know of a node before a worker lives on it.
//
// `numoe-expert-worker --preflight` prints the findings: topology, instruction sets, and every setting of
// kernel, cgroup and governor that costs speed, with what to do. Reads /proc, /sys and the cgroup files,
// writes 64 MiB of memory from each node to see where it comes to lie, and changes nothing. A file that does
// not exist (another kernel, another container runtime) is no finding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/topology/huge_pages.h"
#include "expert_worker/preflight/finding.h"
#include "expert_worker/preflight/pinning.h"

namespace numoe {

/// Findings about kernel and container settings below `root`, "/" but in tests.
std::vector<Finding> CheckSettings(const std::filesystem::path& root);
/// Whether a worker with so many bytes of weights has the memory: "memory_limit", "memory_available".
std::vector<Finding> CheckMemoryFor(const std::filesystem::path& root, uint64_t weight_bytes);
/// Whether so many bytes of such pages are free on `nodes`: "reserved_pages".
std::vector<Finding> CheckReservedPagesFor(const std::filesystem::path& root, HugePages pages, uint64_t bytes,
                                           const std::vector<int>& nodes);
/// Topology, instruction sets, pinning and settings of this machine; with `weight_bytes` the memory too.
std::vector<Finding> Preflight(const PinningRequest& pinning, std::optional<uint64_t> weight_bytes);
/// One line each, "ok    ..." or "check ...: advice".
std::string ToString(const std::vector<Finding>& findings);

}  // namespace numoe
