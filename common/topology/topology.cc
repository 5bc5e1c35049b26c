#include "common/topology/topology.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "common/base/status.h"

namespace numoe {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using TopologyPtr = std::unique_ptr<hwloc_topology, TopologyDeleter>;
struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using BitmapPtr = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

absl::StatusOr<TopologyPtr> Load(std::string_view synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return absl::InternalError("hwloc cannot start");
  TopologyPtr topology(raw);
  const std::string description(synthetic);
  if (!description.empty() && hwloc_topology_set_synthetic(raw, description.c_str()) != 0) {
    return absl::InvalidArgumentError(fmt::format("topology \"{}\" is not an hwloc synthetic description", synthetic));
  }
  if (hwloc_topology_load(raw) != 0) return absl::InternalError("hwloc cannot read this machine's topology");
  return topology;
}

BitmapPtr AffinityOfThisProcess() {
  BitmapPtr allowed(hwloc_bitmap_alloc());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    hwloc_bitmap_fill(allowed.get());
    return allowed;
  }
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) hwloc_bitmap_set(allowed.get(), cpu);
  }
  return allowed;
}

BitmapPtr MemoryNodesOfThisProcess() {
  BitmapPtr nodes(hwloc_bitmap_alloc_full());
  std::ifstream status("/proc/self/status");
  constexpr std::string_view kKey = "Mems_allowed_list:";
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(kKey, 0) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", kKey.size());
    if (begin != std::string::npos) hwloc_bitmap_list_sscanf(nodes.get(), line.c_str() + begin);
  }
  return nodes;
}

// The node's usable CPUs, first hyperthreads of all cores before second ones.
std::vector<int> CpusOf(hwloc_topology_t topology, hwloc_const_cpuset_t cpuset, hwloc_const_bitmap_t allowed) {
  std::vector<std::pair<int, int>> order;  // (hyperthread of its core, cpu)
  unsigned cpu;
  hwloc_bitmap_foreach_begin(cpu, cpuset) {
    if (hwloc_bitmap_isset(allowed, cpu)) {
      const hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(topology, cpu);
      order.push_back({pu == nullptr ? 0 : static_cast<int>(pu->sibling_rank), static_cast<int>(cpu)});
    }
  }
  hwloc_bitmap_foreach_end();
  std::sort(order.begin(), order.end());
  std::vector<int> cpus;
  for (const auto& [rank, number] : order) cpus.push_back(number);
  return cpus;
}

absl::StatusOr<Topology> Read(std::string_view synthetic, hwloc_const_bitmap_t cpus, hwloc_const_bitmap_t memory) {
  ASSIGN_OR_RETURN(const TopologyPtr topology, Load(synthetic));
  Topology result{.nodes = {}, .synthetic = !synthetic.empty()};
  const int count = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < count; ++i) {
    const hwloc_obj_t object = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    NumaNode node{.os_index = static_cast<int>(object->os_index), .cpus = CpusOf(topology.get(), object->cpuset, cpus),
                  .memory_bytes = object->attr->numanode.local_memory};
    if (!node.cpus.empty() && hwloc_bitmap_isset(memory, object->os_index)) result.nodes.push_back(std::move(node));
  }
  if (result.nodes.empty()) {
    return absl::FailedPreconditionError("no NUMA node has both CPUs and memory that this process may use");
  }
  return result;
}

}  // namespace

std::string Topology::ToString() const {
  std::string text = fmt::format("{} node{}", nodes.size(), nodes.size() == 1 ? "" : "s");
  for (const NumaNode& node : nodes) {
    text += fmt::format("; node {}: {} cpus, {:.1f} GiB", node.os_index, node.cpus.size(),
                        static_cast<double>(node.memory_bytes) / (1 << 30));
  }
  return text;
}

absl::StatusOr<Topology> DetectTopology() {
  return Read("", AffinityOfThisProcess().get(), MemoryNodesOfThisProcess().get());
}

absl::StatusOr<Topology> SyntheticTopology(std::string_view description, const std::vector<int>& allowed_cpus) {
  const BitmapPtr all(hwloc_bitmap_alloc_full());
  const BitmapPtr allowed(allowed_cpus.empty() ? hwloc_bitmap_alloc_full() : hwloc_bitmap_alloc());
  for (int cpu : allowed_cpus) hwloc_bitmap_set(allowed.get(), static_cast<unsigned>(cpu));
  return Read(description, allowed.get(), all.get());
}

absl::StatusOr<Placement> PlanPlacement(const Topology& topology, const PlacementRequest& request) {
  const int nodes = static_cast<int>(topology.nodes.size());
  if (request.node >= nodes) {
    return absl::InvalidArgumentError(
        fmt::format("--node={}: there is no such node, expected 0 to {} (or -1 for automatic)", request.node, nodes - 1));
  }
  Placement plan;
  plan.node = request.node >= 0 ? request.node : request.worker_index % nodes;
  const std::vector<int>& cpus = topology.nodes[plan.node].cpus;
  const int available = static_cast<int>(cpus.size());
  if (request.threads > 0) {
    for (int i = 0; i < request.threads; ++i) plan.cpus.push_back(cpus[i % available]);
    plan.why = fmt::format("{} threads asked for on node {}", request.threads, plan.node);
    return plan;
  }
  // Workers that share a node divide its CPUs; with more workers than CPUs they share them.
  const int sharing = request.node >= 0 ? 1 : (request.worker_count - plan.node + nodes - 1) / nodes;
  const int place = request.node >= 0 ? 0 : request.worker_index / nodes;
  const int begin = available * place / sharing;
  const int end = std::max(begin + 1, available * (place + 1) / sharing);
  plan.cpus.assign(cpus.begin() + begin % available, cpus.begin() + std::min(end, available));
  plan.why = fmt::format("node {}, shared by {} worker{}", plan.node, sharing, sharing == 1 ? "" : "s");
  return plan;
}

}  // namespace numoe
