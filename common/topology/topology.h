// NUMA nodes and CPUs as this process may use them, and where a worker should live.
//
// hwloc's view is cut by sched_getaffinity (hwloc 2.9 misreads long cgroup paths) and by Mems_allowed_list of
// /proc/self/status. Tests use hwloc's synthetic descriptions ("pack:2 numa:1 core:4 pu:1"). Values, no
// owner. Detect before binding the calling thread: its CPUs count as the process's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe {

struct NumaNode {
  int os_index = 0;
  int package = -1;        // the socket that it belongs to, hwloc's number; -1: it belongs to none
  std::vector<int> cpus;   // OS numbers this process may run on, ascending, one for each core first
  std::vector<int> cores;  // of each of these CPUs: its core, counted from 0
  uint64_t memory_bytes = 0;
};

struct Topology {
  std::vector<NumaNode> nodes;        // nodes with CPUs and memory this process may use, by os_index
  std::vector<int> memory_only;       // nodes without CPUs of their own, OS numbers
  std::vector<std::string> warnings;  // what is wrong: nodes that lack their memory, CPUs that are offline
  std::vector<std::string> notes;     // what need not be wrong: nodes that are left to others, memory only
  bool confined = false;              // an affinity mask or a cpuset leaves this process a part of the CPUs
  bool synthetic = false;
  std::string ToString() const;
};

/// The machine as this process may use it.
absl::StatusOr<Topology> DetectTopology();
/// "2-3": CPUs that the machine has and that are switched off; empty: none, or the kernel does not say.
std::string OfflineCpus(const std::filesystem::path& root);

/// What cuts a synthetic machine; empty: nothing.
struct TopologyCut {
  std::vector<int> cpus;  // OS numbers, as sched_getaffinity would give them
  std::string mems;       // a list as in Mems_allowed_list, "0,2-3"
};
/// A machine described in hwloc's synthetic syntax.
absl::StatusOr<Topology> SyntheticTopology(std::string_view description, const TopologyCut& cut = {});

/// Part `place`, from 0, of `sharing` of the nodes' CPUs: whole cores as long as there are enough of them,
/// one hyperthread of each before the second ones, the nodes in turns. At least one CPU.
std::vector<int> ShareOfCpus(const std::vector<NumaNode>& nodes, int place, int sharing);

struct Placement {
  std::vector<int> nodes;      // OS numbers, ascending
  std::vector<int> cpus;       // one for each thread; the nodes take turns
  std::vector<int> node_cpus;  // all that this process may use on the nodes
  std::vector<int> idle;       // nodes that no worker of the set takes, OS numbers
  int left = 0;       // CPUs of the nodes that are other workers' part if these live on this host, too
  bool own = false;   // the CPUs were cut out for workers: coordinators have others
  bool asks = false;  // whether others share the CPUs is not known: who is there decides (CpuShare)
  std::string why;
};

/// One part of CPUs that several workers were left together.
struct CpuShare {
  int place = 0;  // from 0
  int sharing = 1;
  bool operator==(const CpuShare&) const = default;
};

/// Where a worker goes: the asked nodes (all to itself); else, with as many workers on this host as nodes or
/// more, node worker_index modulo the nodes; with fewer, its part of the nodes, as far as they are of one
/// socket, so that workers are spread over the sockets. `threads` CPUs, or with 0 its share: workers on one
/// node divide the node's cores. A worker that was given CPUs of one node by an affinity mask or a cpuset
/// shares them with those who are there (`found`). Several nodes for one worker are meant for the clusters of
/// one socket: its threads run on all of them and its memory lies on all of them, but not each thread's share
/// on its own. InvalidArgument names what is out of range.
struct PlacementRequest {
  int worker_index = 0;
  int worker_count = 1;
  int local_workers = 0;        // of them, on this host; 0: not told, taken for all
  std::vector<int> nodes = {};  // OS numbers; empty: by worker_index
  int threads = 0;
  int threads_max = 0;                 // where `threads` is 0: what a CPU quota leaves; 0: no limit
  bool alone = false;                  // somebody promised that no other worker has these CPUs
  std::optional<CpuShare> found = {};  // of CPUs that a cpuset or an affinity mask leaves
};
absl::StatusOr<Placement> PlanPlacement(const Topology& topology, const PlacementRequest& request);

}  // namespace numoe
