// The NUMA nodes and CPUs that this process may use, and which of them a worker should run on.
//
// hwloc reads the whole machine, which is then reduced to what sched_getaffinity and Mems_allowed_list of
// /proc/self/status allow, because hwloc 2.9 misreads long cgroup paths. Tests use hwloc's synthetic
// descriptions ("pack:2 numa:1 core:4 pu:1"). Plain values, which have no owner. Call DetectTopology before
// the calling thread is bound to CPUs, because it takes that thread's CPUs for those of the process.
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
  int package = -1;        // hwloc's number of its socket; -1 if it belongs to none
  std::vector<int> cpus;   // usable CPUs, OS numbers: first one for each core, then the others; ascending
  std::vector<int> cores;  // [cpus] the number of each CPU's core on this node, from 0
  uint64_t memory_bytes = 0;
};

struct Topology {
  std::vector<NumaNode> nodes;        // those with CPUs and memory that this process may use, by os_index
  std::vector<int> memory_only;       // nodes without CPUs of their own, OS numbers
  std::vector<std::string> warnings;  // problems: nodes whose memory may not be used, CPUs that are offline
  std::vector<std::string> notes;     // what may be intended: nodes of other processes, memory-only nodes
  bool confined = false;  // an affinity mask or a cpuset leaves this process only part of the CPUs
  bool synthetic = false;
  std::string ToString() const;
};

/// Returns the part of the machine that this process may use.
absl::StatusOr<Topology> DetectTopology();
/// Returns the CPUs that the machine has and that are offline, as in "2-3"; empty if there are none, or if
/// the kernel does not tell.
std::string OfflineCpus(const std::filesystem::path& root);

/// The part of a synthetic machine that a process may use; all of it if both members are empty.
struct TopologyCut {
  std::vector<int> cpus;  // OS numbers, as sched_getaffinity would give them
  std::string mems;       // a list as in Mems_allowed_list, "0,2-3"
};
/// Returns a machine that is described in hwloc's synthetic syntax.
absl::StatusOr<Topology> SyntheticTopology(std::string_view description, const TopologyCut& cut = {});

/// Divides the nodes' CPUs into `sharing` parts and returns part number `place`, at least one CPU. A part
/// consists of whole cores if there are enough cores. It has first one hyperthread of each core and then the
/// second ones, alternating between the nodes.
std::vector<int> ShareOfCpus(const std::vector<NumaNode>& nodes, int place, int sharing);

/// Returns the CPUs for `threads` compute threads on these nodes; 0 means one thread for each core. Each
/// thread gets a core of its own, node after node, until all cores are used. Further threads get the second
/// hyperthreads, and the rest share CPUs.
std::vector<int> ComputeCpus(const std::vector<NumaNode>& nodes, int threads);

struct Placement {
  std::vector<int> nodes;      // OS numbers, ascending
  std::vector<int> cpus;       // one for each thread, alternating between the nodes
  std::vector<int> node_cpus;  // all CPUs of the nodes that this process may use
  std::vector<int> idle;       // nodes that no worker of the set uses, OS numbers
  int left = 0;       // number of the nodes' CPUs that are left to other workers, if these run on this host
  bool own = false;   // the CPUs are reserved for workers; coordinators use others
  bool asks = false;  // other workers may share these CPUs: count them, and plan again with `found` set
  std::string why;    // the reason for this placement, for the log
};

/// One worker's part of CPUs that several workers share.
struct CpuShare {
  int place = 0;    // number of this worker's part, from 0
  int sharing = 1;  // number of workers
  bool operator==(const CpuShare&) const = default;
};

/// The facts and wishes from which PlanPlacement derives a worker's placement. If `nodes` are given, the
/// worker runs on all their CPUs, which it does not divide with other workers. Otherwise, if this host has at
/// least as many workers as nodes, it runs on node worker_index modulo the number of nodes. With fewer
/// workers each gets a part of the nodes, all in one socket, so that the workers are spread over the sockets.
/// The worker gets `threads` CPUs. If that is 0, it gets one for each core of its share (workers on one node
/// divide the node's cores): the kernels keep a core's arithmetic units and its share of the memory bandwidth
/// busy with one thread, so a second hyperthread would only compete for the core's caches. The other
/// hyperthreads are left to the coordinator; if there are none, a worker with 8 cores or more leaves one core
/// to it, unless the CPUs are reserved for workers. If an affinity mask or a cpuset leaves a worker only CPUs
/// of a single node, it shares them with the workers that it finds there (`found`). One worker on several
/// nodes is meant for sockets that are divided into clusters: its threads and its memory are spread over all
/// of these nodes, but a thread's weights are not necessarily on the thread's own node.
struct PlacementRequest {
  int worker_index = 0;
  int worker_count = 1;
  int local_workers = 0;        // how many of them run on this host; 0 if unknown, which means all
  std::vector<int> nodes = {};  // OS numbers; chosen by worker_index if empty
  int threads = 0;
  int threads_max = 0;                 // bound by a CPU quota, used if `threads` is 0; 0 if there is no quota
  bool alone = false;                  // the operator promises that no other worker has these CPUs
  std::optional<CpuShare> found = {};  // this worker's part of the CPUs that a cpuset or a mask leaves
};
/// Returns INVALID_ARGUMENT, with what is out of range, if the request does not fit the machine.
absl::StatusOr<Placement> PlanPlacement(const Topology& topology, const PlacementRequest& request);

}  // namespace numoe
