// Preflight: what an operator should know of a node before a worker lives on it.
//
// `numoe-expert-worker --preflight` prints the findings: topology, instruction sets, and every setting of
// kernel, cgroup and governor that costs speed, with what to do. Reads /proc, /sys and the cgroup files,
// writes 64 MiB of memory from each node to see where it comes to lie, and changes nothing. A file that does
// not exist (another kernel, another container runtime) is no finding.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace numoe {

struct Finding {
  bool good = true;
  std::string what;    // what was found
  std::string advice;  // what to do; empty when good
};

/// Findings about kernel and container settings below `root`, "/" but in tests.
std::vector<Finding> CheckSettings(const std::filesystem::path& root);
/// Topology, instruction sets and settings of this machine.
std::vector<Finding> Preflight();
/// One line each, "ok    ..." or "check ...: advice".
std::string ToString(const std::vector<Finding>& findings);

}  // namespace numoe
