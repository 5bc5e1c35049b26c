// NUMA nodes and CPUs as this process may use them, and where a worker should live.
//
// hwloc's view is cut by sched_getaffinity (hwloc 2.9 misreads long cgroup paths) and by Mems_allowed_list of
// /proc/self/status. Tests use hwloc's synthetic descriptions ("pack:2 numa:1 core:4 pu:1"). Values, no owner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe {

struct NumaNode {
  int os_index = 0;
  std::vector<int> cpus;    // OS numbers this process may run on, ascending, one for each core first
  uint64_t memory_bytes = 0;
};

struct Topology {
  std::vector<NumaNode> nodes;  // nodes with CPUs and memory this process may use, by os_index
  bool synthetic = false;
  std::string ToString() const;
};

/// The machine as this process may use it.
absl::StatusOr<Topology> DetectTopology();
/// A machine described in hwloc's synthetic syntax, cut to `allowed_cpus` unless empty.
absl::StatusOr<Topology> SyntheticTopology(std::string_view description, const std::vector<int>& allowed_cpus);

struct Placement {
  int node = 0;             // index in Topology::nodes
  std::vector<int> cpus;    // one for each thread
  std::string why;
};

/// Where worker `worker_index` goes: the asked node, or worker_index modulo the nodes; `threads` CPUs, or with 0 its
/// share: workers on one node divide the node's CPUs. InvalidArgument names a node that does not exist.
struct PlacementRequest {
  int worker_index = 0;
  int worker_count = 1;
  int node = -1;            // -1: by worker_index
  int threads = 0;
};
absl::StatusOr<Placement> PlanPlacement(const Topology& topology, const PlacementRequest& request);

}  // namespace numoe
