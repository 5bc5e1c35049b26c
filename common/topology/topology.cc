#include "common/topology/topology.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/topology/number_list.h"

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
  if (hwloc_topology_init(&raw) != 0) return absl::InternalError("hwloc cannot be initialised");
  TopologyPtr topology(raw);
  const std::string description(synthetic);
  if (!description.empty() && hwloc_topology_set_synthetic(raw, description.c_str()) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("topology \"{}\" is not a synthetic description for hwloc, expected one such as \"pack:2 "
                    "numa:1 core:4 pu:1\"",
                    synthetic));
  }
  // Load the whole machine; Read reduces it to what a cpuset allows, so that it can say what is missing.
  if (hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0)
    return absl::InternalError("hwloc does not know disallowed CPUs; expected version 2.1 or later");
  if (hwloc_topology_load(raw) != 0) return absl::InternalError("hwloc cannot read this machine's topology");
  return topology;
}

// Returns the CPUs of the calling thread. While only the main thread runs, these are the CPUs of the process.
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

// Returns false if the text is not a list of node numbers.
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

// Sets the node's usable CPUs, the first hyperthread of every core before the second ones, and their cores. A
// hyperthread's rank is its position within the core, not within hwloc's parent object, because some virtual
// machines report a cache for each hyperthread, which is then the parent.
void SetCpus(hwloc_topology_t topology, hwloc_const_cpuset_t cpuset, hwloc_const_bitmap_t allowed,
             NumaNode& node) {
  std::map<hwloc_obj_t, int> taken;              // usable hyperthreads of each core so far
  std::map<hwloc_obj_t, int> numbers;            // the number of each core
  std::vector<std::tuple<int, int, int>> order;  // (hyperthread of its core, cpu, core)
  int cores = 0;
  unsigned cpu;
  hwloc_bitmap_foreach_begin(cpu, cpuset) {
    if (hwloc_bitmap_isset(allowed, cpu)) {
      const hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(topology, cpu);
      const hwloc_obj_t core =
          pu == nullptr ? nullptr : hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
      // If hwloc reports no cores, every CPU counts as a core.
      const bool known = core != nullptr && numbers.count(core) > 0;
      const int number = known ? numbers[core] : cores++;
      if (core != nullptr) numbers[core] = number;
      order.push_back({core == nullptr ? 0 : taken[core]++, static_cast<int>(cpu), number});
    }
  }
  hwloc_bitmap_foreach_end();
  std::sort(order.begin(), order.end());
  for (const auto& [rank, number, core] : order) {
    node.cpus.push_back(number);
    node.cores.push_back(core);
  }
}

// Returns all nodes of the machine, sorted by OS number.
std::vector<hwloc_obj_t> NodesOf(hwloc_topology_t topology) {
  std::vector<hwloc_obj_t> nodes;
  const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < count; ++i)
    nodes.push_back(hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i)));
  std::sort(nodes.begin(), nodes.end(),
            [](hwloc_obj_t a, hwloc_obj_t b) { return a->os_index < b->os_index; });
  return nodes;
}

// Returns whether a node consists of memory only. The kernel assigns each CPU to one node. For a node without
// CPUs (a socket's high-bandwidth memory, CXL) hwloc shows the CPUs of the nearest nodes, but no worker
// should have its home there, whether a process may use the memory or not.
bool HasNoCpus(const std::vector<hwloc_obj_t>& nodes, hwloc_obj_t node, bool synthetic) {
  if (!synthetic) {
    const auto own = ReadNumberList(fmt::format("/sys/devices/system/node/node{}/cpulist", node->os_index));
    if (own) return own->empty();
  }
  if (hwloc_bitmap_iszero(node->cpuset) != 0) return true;
  const auto own = std::find(nodes.begin(), nodes.end(), node);
  return std::any_of(nodes.begin(), own, [&](hwloc_obj_t before) {
    return hwloc_bitmap_intersects(before->cpuset, node->cpuset) != 0;
  });
}

absl::StatusOr<Topology> Read(std::string_view synthetic, hwloc_const_bitmap_t cpus,
                              hwloc_const_bitmap_t memory) {
  ASSIGN_OR_RETURN(const TopologyPtr topology, Load(synthetic));
  Topology result{.synthetic = !synthetic.empty()};
  result.confined = hwloc_bitmap_isincluded(hwloc_get_root_obj(topology.get())->cpuset, cpus) == 0;
  const std::vector<hwloc_obj_t> nodes = NodesOf(topology.get());
  for (const hwloc_obj_t object : nodes) {
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, object);
    NumaNode node{.os_index = static_cast<int>(object->os_index),
                  .package = package == nullptr ? -1 : static_cast<int>(package->logical_index),
                  .cpus = {},
                  .cores = {},
                  .memory_bytes = object->attr->numanode.local_memory};
    SetCpus(topology.get(), object->cpuset, cpus, node);
    if (HasNoCpus(nodes, object, result.synthetic)) {
      result.notes.push_back(fmt::format("node {} has no CPUs of its own, only memory", node.os_index));
      result.memory_only.push_back(node.os_index);
    } else if (node.cpus.empty()) {
      result.notes.push_back(fmt::format(
          "node {} is left to other processes: this one may not use any of its CPUs", node.os_index));
    } else if (hwloc_bitmap_isset(memory, object->os_index) == 0) {
      result.warnings.push_back(fmt::format(
          "node {} is left out: this process may use its CPUs, but not its memory", node.os_index));
    } else {
      result.nodes.push_back(std::move(node));
    }
  }
  if (!result.nodes.empty()) return result;
  result.warnings.insert(result.warnings.end(), result.notes.begin(), result.notes.end());
  return absl::FailedPreconditionError(fmt::format(
      "no NUMA node has both CPUs and memory that this process may use ({}); expected that it may "
      "use the memory of its CPUs' nodes (cpuset.mems, AllowedMemoryNodes=, --cpuset-mems)",
      fmt::join(result.warnings, "; ")));
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
  if (request.local_workers < 0 || request.local_workers > request.worker_count) {
    return absl::InvalidArgumentError(fmt::format(
        "--local-workers={}: expected at most --worker-count={}, the number of workers on all hosts",
        request.local_workers, request.worker_count));
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

// The number of workers of the set that run on this host, and this one's number among them. The workers on a
// host have consecutive slices.
struct Local {
  int index = 0;
  int workers = 1;
};
Local LocalOf(const PlacementRequest& request) {
  NUMOE_DCHECK(0 <= request.worker_index && request.worker_index < request.worker_count);
  const int workers = request.local_workers > 0 ? request.local_workers : request.worker_count;
  return {request.worker_index % workers, workers};
}

// Returns the nodes of a worker. With fewer workers than nodes, each worker gets a part of the nodes, counted
// socket by socket, but only those in the socket of the part's first node.
std::vector<NumaNode> HomesByIndex(const Topology& topology, const Local& local) {
  std::vector<NumaNode> nodes = topology.nodes;
  NUMOE_CHECK(!nodes.empty()) << "Read refuses a machine without nodes";
  NUMOE_CHECK(0 <= local.index && local.index < local.workers);
  const auto index = static_cast<size_t>(local.index), workers = static_cast<size_t>(local.workers);
  if (workers >= nodes.size()) return {nodes[index % nodes.size()]};
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const NumaNode& a, const NumaNode& b) { return a.package < b.package; });
  const size_t begin = nodes.size() * index / workers, end = nodes.size() * (index + 1) / workers;
  NUMOE_CHECK(begin < end && end <= nodes.size());
  std::vector<NumaNode> homes = {nodes[begin]};
  for (size_t i = begin + 1; i < end && nodes[i].package >= 0; ++i)
    if (nodes[i].package == homes[0].package) homes.push_back(nodes[i]);
  return homes;
}

// Returns the nodes that no worker of the set uses.
std::vector<int> IdleNodes(const Topology& topology, const PlacementRequest& request) {
  if (!request.nodes.empty()) return {};  // flags also give the nodes of the other workers
  std::vector<int> idle = NumbersOf(topology.nodes);
  const int workers = LocalOf(request).workers;
  for (int worker = 0; worker < workers; ++worker) {
    for (const NumaNode& home : HomesByIndex(topology, {worker, workers}))
      idle.erase(std::remove(idle.begin(), idle.end(), home.os_index), idle.end());
  }
  return idle;
}

// Returns the requested nodes, or those that follow from the worker's index; ascending.
absl::StatusOr<std::vector<NumaNode>> HomesOf(const Topology& topology, const PlacementRequest& request) {
  if (request.nodes.empty()) return HomesByIndex(topology, LocalOf(request));
  std::vector<NumaNode> homes;
  for (const NumaNode& node : topology.nodes) {
    if (std::count(request.nodes.begin(), request.nodes.end(), node.os_index) > 0) homes.push_back(node);
  }
  if (homes.size() == request.nodes.size()) return homes;
  return absl::InvalidArgumentError(fmt::format("--numa-nodes={}: expected each node once, of {}",
                                                fmt::join(request.nodes, ","),
                                                fmt::join(NumbersOf(topology.nodes), ",")));
}

// A worker leaves a core to the coordinator if it has at least this number of cores and none has a second
// hyperthread. That costs at most an eighth of its arithmetic, and none of the memory bandwidth, which fewer
// threads can already use completely.
constexpr int kCoresToSpareOne = 8;

// A CPU and its core.
struct Hyperthread {
  int cpu = 0;
  std::pair<int, size_t> core;  // its number on the node, and the node: sorting alternates between nodes
};

// Returns the hyperthreads of all nodes, alternating between the nodes, so that the first N threads are
// spread over all of them.
std::vector<Hyperthread> InTurns(const std::vector<NumaNode>& homes) {
  std::vector<Hyperthread> all;
  for (size_t i = 0, before = SIZE_MAX; before != all.size(); ++i) {
    before = all.size();
    for (size_t node = 0; node < homes.size(); ++node) {
      NUMOE_DCHECK_EQ(homes[node].cpus.size(), homes[node].cores.size());
      if (i < homes[node].cpus.size()) all.push_back({homes[node].cpus[i], {homes[node].cores[i], node}});
    }
  }
  return all;
}

// Returns the range [begin, end) of `count` things that belongs to one part, which has at least one thing.
std::pair<int, int> PartOf(int count, const CpuShare& share) {
  NUMOE_CHECK_GT(count, 0);
  const int begin = std::min(count * share.place / share.sharing, count - 1);
  return {begin, std::max(begin + 1, count * (share.place + 1) / share.sharing)};
}

std::vector<int> CpusOf(const std::vector<Hyperthread>& hyperthreads) {
  std::vector<int> cpus;
  for (const Hyperthread& each : hyperthreads) cpus.push_back(each.cpu);
  return cpus;
}

std::set<std::pair<int, size_t>> CoresOf(const std::vector<Hyperthread>& hyperthreads) {
  std::set<std::pair<int, size_t>> cores;
  for (const Hyperthread& each : hyperthreads) cores.insert(each.core);
  return cores;
}

// Returns the hyperthreads of one part of the nodes, in the order of ShareOfCpus.
std::vector<Hyperthread> ShareOf(const std::vector<NumaNode>& nodes, const CpuShare& share) {
  NUMOE_CHECK(0 <= share.place && share.place < share.sharing) << share.place << " of " << share.sharing;
  std::vector<Hyperthread> all = InTurns(nodes);
  const std::set<std::pair<int, size_t>> cores = CoresOf(all);
  if (static_cast<int>(cores.size()) < share.sharing) {
    // There are fewer cores than workers, so the hyperthreads of one core belong to several workers.
    std::stable_sort(all.begin(), all.end(),
                     [](const Hyperthread& a, const Hyperthread& b) { return a.core < b.core; });
    const auto [begin, end] = PartOf(static_cast<int>(all.size()), share);
    return {all.begin() + begin, all.begin() + end};
  }
  const auto [begin, end] = PartOf(static_cast<int>(cores.size()), share);
  const std::set<std::pair<int, size_t>> own(std::next(cores.begin(), begin), std::next(cores.begin(), end));
  std::vector<Hyperthread> part;
  for (const Hyperthread& each : all)
    if (own.count(each.core) > 0) part.push_back(each);
  return part;
}

// Returns how this worker shares its nodes' CPUs with others. `cut`: an affinity mask or a cpuset leaves it
// only these CPUs.
CpuShare ShareFor(const Topology& topology, const PlacementRequest& request, bool cut) {
  NUMOE_CHECK(!topology.nodes.empty());
  if (!request.nodes.empty() || request.alone) return {};
  if (cut && request.local_workers == 0) return request.found.value_or(CpuShare{});
  const Local local = LocalOf(request);
  const int nodes = static_cast<int>(topology.nodes.size());
  return {local.index / nodes, (local.workers - local.index % nodes + nodes - 1) / nodes};
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
  if (const std::string offline = OfflineCpus("/"); !offline.empty() && !topology.memory_only.empty()) {
    topology.warnings.push_back(
        fmt::format("CPUs {} are offline, and a node without other CPUs gets no worker; switch each of them "
                    "on with echo 1 > /sys/devices/system/cpu/cpuN/online",
                    offline));
  }
  return topology;
}

std::string OfflineCpus(const std::filesystem::path& root) {
  const std::filesystem::path folder = root / "sys/devices/system/cpu";
  NumberList offline = ReadNumberList(folder / "present").value_or(NumberList{});
  const std::optional<NumberList> online = ReadNumberList(folder / "online");
  if (!online) return "";
  for (const int cpu : *online) offline.erase(cpu);
  return ToText(offline);
}

absl::StatusOr<Topology> SyntheticTopology(std::string_view description, const TopologyCut& cut) {
  const BitmapPtr mems(hwloc_bitmap_alloc_full());
  if (!cut.mems.empty() && !ParseNodeList(cut.mems, mems.get())) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is not a list of memory nodes, expected one such as 0,2-3", cut.mems));
  }
  const BitmapPtr cpus(cut.cpus.empty() ? hwloc_bitmap_alloc_full() : hwloc_bitmap_alloc());
  for (const int cpu : cut.cpus) hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu));
  return Read(description, cpus.get(), mems.get());
}

std::vector<int> ShareOfCpus(const std::vector<NumaNode>& nodes, int place, int sharing) {
  return CpusOf(ShareOf(nodes, {place, sharing}));
}

std::vector<int> ComputeCpus(const std::vector<NumaNode>& nodes, int threads) {
  NUMOE_CHECK_GE(threads, 0);
  std::vector<int> first;   // one hyperthread of each core, node after node
  std::vector<int> second;  // the others
  for (const NumaNode& node : nodes) {
    NUMOE_CHECK_EQ(node.cpus.size(), node.cores.size());
    std::set<int> cores;
    for (size_t i = 0; i < node.cpus.size(); ++i)
      (cores.insert(node.cores[i]).second ? first : second).push_back(node.cpus[i]);
  }
  NUMOE_CHECK(!first.empty()) << "a topology has at least one CPU";
  const size_t count = threads == 0 ? first.size() : static_cast<size_t>(threads);
  first.insert(first.end(), second.begin(), second.end());
  std::vector<int> cpus;
  for (size_t i = 0; i < count; ++i) cpus.push_back(first[i % first.size()]);
  return cpus;
}

absl::StatusOr<Placement> PlanPlacement(const Topology& topology, const PlacementRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request));
  ASSIGN_OR_RETURN(const std::vector<NumaNode> homes, HomesOf(topology, request));
  Placement plan{
      .nodes = NumbersOf(homes), .node_cpus = ShareOfCpus(homes, 0, 1), .idle = IdleNodes(topology, request)};
  const bool several = topology.nodes.size() > 1;
  const bool told = !request.nodes.empty() || request.alone;
  const bool cut = topology.confined && !several;
  plan.own = topology.confined || (!request.nodes.empty() && several);
  plan.asks = cut && !told && request.local_workers == 0;
  // The workers on one node divide its CPUs; if there are more workers than CPUs, several share a CPU.
  const CpuShare share = ShareFor(topology, request, cut);
  const std::vector<Hyperthread> part = ShareOf(homes, share);
  std::vector<int> order = CpusOf(part);
  NUMOE_CHECK(!order.empty() && order.size() <= plan.node_cpus.size());
  const int own = static_cast<int>(order.size());
  const int cores = static_cast<int>(CoresOf(part).size());
  if (!plan.asks && request.local_workers == 0) plan.left = static_cast<int>(plan.node_cpus.size()) - own;
  // If more threads are requested, the rest run on CPUs of other workers.
  for (const int cpu : plan.node_cpus)
    if (std::find(order.begin(), order.begin() + own, cpu) == order.begin() + own) order.push_back(cpu);
  const bool spare = own == cores && !plan.own && cores >= kCoresToSpareOne;
  int threads = request.threads > 0 ? request.threads : cores - (spare ? 1 : 0);
  if (request.threads == 0 && request.threads_max > 0) threads = std::min(threads, request.threads_max);
  for (int i = 0; i < threads; ++i) plan.cpus.push_back(order[static_cast<size_t>(i) % order.size()]);
  NUMOE_CHECK_EQ(order.size(), plan.node_cpus.size()) << "a worker's CPUs belong to its nodes";
  const std::string where =
      fmt::format("node{} {}", plan.nodes.size() == 1 ? "" : "s", fmt::join(plan.nodes, ", "));
  if (request.threads > 0) {
    plan.why = fmt::format("{}, with the requested {} thread{}", where, request.threads,
                           request.threads == 1 ? "" : "s");
    return plan;
  }
  if (share.sharing > 1) {
    plan.why = fmt::format("{}, shared by {} workers", where, share.sharing);
  } else {
    plan.why = where + (plan.asks ? ", the only worker on the CPUs that it may use" : ", used by 1 worker");
  }
  if (own > cores)
    plan.why += "; one thread for each core, the other hyperthreads are left to the coordinator";
  if (spare) plan.why += "; one core is left to the coordinator";
  return plan;
}

}  // namespace numoe
