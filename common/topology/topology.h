// NUMA nodes and CPUs as this process may use them, and where a worker should live.
//
// hwloc's view is cut by sched_getaffinity (hwloc 2.9 misreads long cgroup paths) and by Mems_allowed_list of
// /proc/self/status. Tests use hwloc's synthetic descriptions ("pack:2 numa:1 core:4 pu:1"). Values, no
// owner. Detect before binding the calling thread: its CPUs count as the process's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe {

struct NumaNode {
  int os_index = 0;
  int package = -1;       // the socket that it belongs to, hwloc's number; -1: it belongs to none
  std::vector<int> cpus;  // OS numbers this process may run on, ascending, one for each core first
  uint64_t memory_bytes = 0;
};

struct Topology {
  std::vector<NumaNode> nodes;  // nodes with CPUs and memory this process may use, by os_index
  std::vector<std::string>
      warnings;  // what an operator should know: nodes left out, kernel settings that cost speed
  bool synthetic = false;
  std::string ToString() const;
};

/// The machine as this process may use it.
absl::StatusOr<Topology> DetectTopology();

/// What cuts a synthetic machine; empty: nothing.
struct TopologyCut {
  std::vector<int> cpus;  // OS numbers, as sched_getaffinity would give them
  std::string mems;       // a list as in Mems_allowed_list, "0,2-3"
};
/// A machine described in hwloc's synthetic syntax.
absl::StatusOr<Topology> SyntheticTopology(std::string_view description, const TopologyCut& cut = {});

struct Placement {
  std::vector<int> nodes;     // OS numbers, ascending
  std::vector<int> cpus;      // one for each thread; the nodes take turns
  uint64_t memory_bytes = 0;  // of the nodes
  std::string why;
};

/// Where worker `worker_index` goes: the asked nodes (all to itself), or node worker_index modulo the nodes;
/// `threads` CPUs, or with 0 its share: workers on one node divide the node's CPUs. Several nodes for one
/// worker are meant for the clusters of one socket: its threads run on all of them and its memory lies on all
/// of them, but not each thread's share on its own. InvalidArgument names what is out of range.
struct PlacementRequest {
  int worker_index = 0;
  int worker_count = 1;
  std::vector<int> nodes = {};  // OS numbers; empty: by worker_index
  int threads = 0;
};
absl::StatusOr<Placement> PlanPlacement(const Topology& topology, const PlacementRequest& request);

}  // namespace numoe
