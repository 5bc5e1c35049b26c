#include "common/topology/topology.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "common/base/limits.h"
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
    return absl::InvalidArgumentError(
        fmt::format("topology \"{}\" is not an hwloc synthetic description", synthetic));
  }
  if (hwloc_topology_load(raw) != 0) return absl::InternalError("hwloc cannot read this machine's topology");
  return topology;
}

// The calling thread's CPUs: main's, when a daemon starts.
BitmapPtr AffinityOfThisProcess() {
  constexpr size_t kCpusMax = 8192;  // the kernel's largest configuration; cpu_set_t ends at 1024
  BitmapPtr allowed(hwloc_bitmap_alloc());
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kCpusMax),
                                                       [](cpu_set_t* s) { CPU_FREE(s); });
  const size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  CPU_ZERO_S(bytes, set.get());
  if (sched_getaffinity(0, bytes, set.get()) != 0) {
    hwloc_bitmap_fill(allowed.get());
    return allowed;
  }
  for (unsigned cpu = 0; cpu < kCpusMax; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, set.get())) hwloc_bitmap_set(allowed.get(), cpu);
  }
  return allowed;
}

// False if the text is no list of node numbers.
bool ParseNodeList(const std::string& text, hwloc_bitmap_s* nodes) {
  return hwloc_bitmap_list_sscanf(nodes, text.c_str()) == 0;
}

BitmapPtr MemoryNodesOfThisProcess() {
  BitmapPtr nodes(hwloc_bitmap_alloc_full());
  std::ifstream status("/proc/self/status");
  constexpr std::string_view kKey = "Mems_allowed_list:";
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(kKey, 0) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", kKey.size());
    if (begin != std::string::npos) ParseNodeList(line.substr(begin), nodes.get());
  }
  return nodes;
}

// The kernel moves pages towards threads it saw touching them: work for nothing where threads are bound.
bool NumaBalancing() {
  std::ifstream setting("/proc/sys/kernel/numa_balancing");
  int value = 0;
  return setting >> value && value != 0;
}

// The node's usable CPUs, first hyperthreads of all cores before second ones.
std::vector<int> CpusOf(hwloc_topology_t topology, hwloc_const_cpuset_t cpuset,
                        hwloc_const_bitmap_t allowed) {
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

// Why a node cannot be a worker's home; empty: it can.
std::string Unusable(const NumaNode& node, hwloc_const_bitmap_t memory, const std::vector<NumaNode>& before) {
  if (node.cpus.empty()) return "none of its CPUs may be used";
  if (!hwloc_bitmap_isset(memory, static_cast<unsigned>(node.os_index))) return "its memory may not be used";
  // High-bandwidth and ordinary memory of one socket are two nodes with the same CPUs: one worker, not two.
  for (const NumaNode& other : before) {
    if (other.cpus == node.cpus) return fmt::format("it has the CPUs of node {}", other.os_index);
  }
  return "";
}

absl::StatusOr<Topology> Read(std::string_view synthetic, hwloc_const_bitmap_t cpus,
                              hwloc_const_bitmap_t memory) {
  ASSIGN_OR_RETURN(const TopologyPtr topology, Load(synthetic));
  Topology result{.nodes = {}, .warnings = {}, .synthetic = !synthetic.empty()};
  const int count = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < count; ++i) {
    const hwloc_obj_t object =
        hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, object);
    NumaNode node{.os_index = static_cast<int>(object->os_index),
                  .package = package == nullptr ? -1 : static_cast<int>(package->logical_index),
                  .cpus = CpusOf(topology.get(), object->cpuset, cpus),
                  .memory_bytes = object->attr->numanode.local_memory};
    if (const std::string reason = Unusable(node, memory, result.nodes); !reason.empty()) {
      result.warnings.push_back(fmt::format("node {} is left out: {}", node.os_index, reason));
      continue;
    }
    result.nodes.push_back(std::move(node));
  }
  if (result.nodes.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("no NUMA node has both CPUs and memory that this process may use ({})",
                    fmt::join(result.warnings, "; ")));
  }
  std::sort(result.nodes.begin(), result.nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.os_index < b.os_index; });
  return result;
}

absl::Status CheckRequest(const PlacementRequest& request) {
  if (request.worker_count < 1) {
    return absl::InvalidArgumentError(
        fmt::format("--worker-count={}: expected at least 1", request.worker_count));
  }
  if (request.worker_index < 0 || request.worker_index >= request.worker_count) {
    return absl::InvalidArgumentError(fmt::format("--worker-index={}: expected 0 to {} for --worker-count={}",
                                                  request.worker_index, request.worker_count - 1,
                                                  request.worker_count));
  }
  if (request.threads < 0 || request.threads > limits::kThreadsMax) {
    return absl::InvalidArgumentError(fmt::format("--threads={}: expected 1 to {} (or 0 for automatic)",
                                                  request.threads, limits::kThreadsMax));
  }
  return absl::OkStatus();
}

std::vector<int> NumbersOf(const std::vector<NumaNode>& nodes) {
  std::vector<int> numbers;
  for (const NumaNode& node : nodes) numbers.push_back(node.os_index);
  return numbers;
}

// The asked nodes, or the one that is this worker's turn; ascending.
absl::StatusOr<std::vector<NumaNode>> HomesOf(const Topology& topology, const PlacementRequest& request) {
  if (request.nodes.empty())
    return std::vector<NumaNode>{
        topology.nodes[static_cast<size_t>(request.worker_index) % topology.nodes.size()]};
  std::vector<NumaNode> homes;
  for (const NumaNode& node : topology.nodes) {
    if (std::count(request.nodes.begin(), request.nodes.end(), node.os_index) > 0) homes.push_back(node);
  }
  if (homes.size() == request.nodes.size()) return homes;
  return absl::InvalidArgumentError(fmt::format("--numa-nodes={}: expected each once, of {}",
                                                fmt::join(request.nodes, ","),
                                                fmt::join(NumbersOf(topology.nodes), ",")));
}

// The nodes take turns, so that the first N threads are spread over all of them.
std::vector<int> InTurns(const std::vector<NumaNode>& homes) {
  std::vector<int> cpus;
  for (size_t i = 0, before = SIZE_MAX; before != cpus.size(); ++i) {
    before = cpus.size();
    for (const NumaNode& node : homes) {
      if (i < node.cpus.size()) cpus.push_back(node.cpus[i]);
    }
  }
  return cpus;
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
  ASSIGN_OR_RETURN(Topology topology,
                   Read("", AffinityOfThisProcess().get(), MemoryNodesOfThisProcess().get()));
  if (topology.nodes.size() > 1 && NumaBalancing()) {
    topology.warnings.push_back(
        "the kernel moves pages between nodes; sysctl kernel.numa_balancing=0 stops it");
  }
  return topology;
}

absl::StatusOr<Topology> SyntheticTopology(std::string_view description, const TopologyCut& cut) {
  const BitmapPtr mems(hwloc_bitmap_alloc_full());
  if (!cut.mems.empty() && !ParseNodeList(cut.mems, mems.get())) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is no list of memory nodes, expected like 0,2-3", cut.mems));
  }
  const BitmapPtr cpus(cut.cpus.empty() ? hwloc_bitmap_alloc_full() : hwloc_bitmap_alloc());
  for (const int cpu : cut.cpus) hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu));
  return Read(description, cpus.get(), mems.get());
}

absl::StatusOr<Placement> PlanPlacement(const Topology& topology, const PlacementRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request));
  ASSIGN_OR_RETURN(const std::vector<NumaNode> homes, HomesOf(topology, request));
  Placement plan{.nodes = NumbersOf(homes), .cpus = {}, .memory_bytes = 0, .why = {}};
  for (const NumaNode& node : homes) plan.memory_bytes += node.memory_bytes;
  const std::vector<int> cpus = InTurns(homes);
  const int available = static_cast<int>(cpus.size());
  // Workers that share a node divide its CPUs; with more workers than CPUs they share them.
  const int nodes = static_cast<int>(topology.nodes.size());
  const bool alone = !request.nodes.empty();
  const int sharing = alone ? 1 : (request.worker_count - request.worker_index % nodes + nodes - 1) / nodes;
  const int place = alone ? 0 : request.worker_index / nodes;
  const int begin = available * place / sharing;
  const int end = std::max(begin + 1, available * (place + 1) / sharing);
  const int threads = request.threads > 0 ? request.threads : end - begin;
  for (int i = 0; i < threads; ++i) plan.cpus.push_back(cpus[(begin + i) % available]);
  const std::string where =
      fmt::format("node{} {}", plan.nodes.size() == 1 ? "" : "s", fmt::join(plan.nodes, ", "));
  plan.why = request.threads > 0
                 ? fmt::format("{} threads asked for on {}", request.threads, where)
                 : fmt::format("{}, shared by {} worker{}", where, sharing, sharing == 1 ? "" : "s");
  return plan;
}

}  // namespace numoe
