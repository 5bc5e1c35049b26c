#include "expert_worker/preflight/preflight.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "common/kernels/kernels.h"
#include "common/threading/thread_binding.h"
#include "common/topology/node_memory.h"
#include "common/topology/topology.h"
#include "common/weights/range_reader.h"

namespace numoe {
namespace {

namespace fs = std::filesystem;

// The first line; nullopt where there is no such file.
std::optional<std::string> ReadLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

void CheckHugePages(const fs::path& root, std::vector<Finding>& out) {
  const auto modes = ReadLine(root / "sys/kernel/mm/transparent_hugepage/enabled");
  if (!modes) return;
  const bool never = modes->find("[never]") != std::string::npos;
  out.push_back(
      {!never, fmt::format("transparent huge pages: {}", *modes),
       never ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: weights are asked for in huge "
               "pages, and without them every access pays for address translation"
             : ""});
  const auto defrag = ReadLine(root / "sys/kernel/mm/transparent_hugepage/defrag");
  if (never || !defrag || defrag->find("[never]") == std::string::npos) return;
  out.push_back(
      {false, fmt::format("making huge pages: {}", *defrag),
       "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag: memory that is in pieces is never put "
       "together, and weights get small pages after the machine has run for a while"});
}

// A line "Node 0 MemFree:  1234 kB" in bytes.
uint64_t NodeMemoryLine(const fs::path& meminfo, const std::string& key) {
  std::ifstream file(meminfo);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(" " + key + ":");
    if (at != std::string::npos) return std::strtoull(line.c_str() + at + key.size() + 2, nullptr, 10) << 10;
  }
  return 0;
}

// First touch takes another node's page rather than giving up cached files of this one.
void CheckNodeMemory(const fs::path& root, std::vector<Finding>& out) {
  const fs::path nodes = root / "sys/devices/system/node";
  const bool several = fs::exists(nodes / "node1");
  constexpr double kGib = 1 << 30;
  for (int node = 0; fs::exists(nodes / fmt::format("node{}", node)); ++node) {
    const fs::path meminfo = nodes / fmt::format("node{}/meminfo", node);
    const auto total = static_cast<double>(NodeMemoryLine(meminfo, "MemTotal"));
    const auto free = static_cast<double>(NodeMemoryLine(meminfo, "MemFree"));
    const auto files = static_cast<double>(NodeMemoryLine(meminfo, "FilePages"));
    if (total == 0) continue;
    const bool good = !several || free >= files;
    out.push_back(
        {good,
         fmt::format("memory of node {}: {:.1f} GiB, of which {:.1f} free and {:.1f} cached files", node,
                     total / kGib, free / kGib, files / kGib),
         good ? ""
              : "echo 1 > /proc/sys/vm/drop_caches before the worker starts: where cached files fill a "
                "node, its weights spill to another one"});
  }
}

void CheckLimits(const fs::path& root, std::vector<Finding>& out) {
  if (const auto limit = ReadLine(root / "sys/fs/cgroup/memory.max"); limit && *limit != "max") {
    out.push_back({true,
                   fmt::format("the cgroup may use {:.1f} GiB of memory",
                               std::strtod(limit->c_str(), nullptr) / (1 << 30)),
                   ""});
  }
  if (const auto mode = ReadLine(root / "proc/sys/vm/overcommit_memory"); mode && *mode == "2") {
    out.push_back(
        {false, "vm.overcommit_memory is 2",
         "sysctl vm.overcommit_memory=0: address space for the weights is reserved before they are read"});
  }
}

void CheckGovernors(const fs::path& root, std::vector<Finding>& out) {
  std::map<std::string, int> governors;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/cpu", error)) {
    if (const auto governor = ReadLine(entry.path() / "cpufreq/scaling_governor")) ++governors[*governor];
  }
  for (const auto& [governor, cpus] : governors) {
    const bool good = governor == "performance" || governor == "schedutil";
    out.push_back(
        {good, fmt::format("frequency governor of {} CPUs: {}", cpus, governor),
         good ? ""
              : "cpupower frequency-set -g performance: clocks that follow the load are late for calls of "
                "some hundred microseconds"});
  }
}

// cgroup v2's "QUOTA PERIOD" or "max PERIOD", in microseconds.
void CheckQuota(const fs::path& root, std::vector<Finding>& out) {
  const auto line = ReadLine(root / "sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!line || !(std::istringstream(*line) >> quota >> period) || period <= 0) return;
  out.push_back(
      {false, fmt::format("the cgroup may use {:.2f} CPUs on average (cpu.max: {})", quota / period, *line),
       "whole CPUs instead of a quota (Kubernetes: Guaranteed QoS with the static CPU manager): a quota "
       "stops "
       "all threads in the middle of a layer until its period ends"});
}

void CheckSwap(const fs::path& root, std::vector<Finding>& out) {
  std::ifstream swaps(root / "proc/swaps");
  std::string line;
  int devices = -1;  // the first line is the heading
  while (std::getline(swaps, line)) ++devices;
  if (devices <= 0) return;
  out.push_back(
      {false, fmt::format("{} swap devices are on", devices),
       "swapoff -a, or vm.swappiness=0: weights are memory that is read rarely enough to be swapped out"});
}

void CheckNumaBalancing(const fs::path& root, std::vector<Finding>& out) {
  const auto value = ReadLine(root / "proc/sys/kernel/numa_balancing");
  if (!value || *value == "0" || !fs::exists(root / "sys/devices/system/node/node1")) return;
  out.push_back(
      {false, "kernel.numa_balancing is " + *value,
       "sysctl kernel.numa_balancing=0: the kernel moves pages that are already where they belong"});
}

}  // namespace

std::vector<Finding> CheckSettings(const fs::path& root) {
  std::vector<Finding> findings;
  CheckHugePages(root, findings);
  CheckNodeMemory(root, findings);
  CheckLimits(root, findings);
  CheckGovernors(root, findings);
  CheckQuota(root, findings);
  CheckSwap(root, findings);
  CheckNumaBalancing(root, findings);
  return findings;
}

namespace {

std::string Percent(std::optional<double> share) {
  return share ? fmt::format("{:.0f}%", 100 * *share) : "an unknown share";
}

// What the kernel says counts less than what it does: writes some memory from the node's CPUs and looks where
// it is.
Finding TryMemory(const NumaNode& node) {
  constexpr size_t kTrialBytes = size_t{64} << 20;
  const ScopedThreadBinding binding(node.cpus);
  const absl::StatusOr<NodeMemory> block = NodeMemory::Allocate(kTrialBytes);
  MemorySpans memory;
  if (block.ok()) {
    std::memset(block->data(), 1, block->size());
    memory.push_back(block->bytes());
  }
  const std::optional<double> local = LocalShare(memory, {node.os_index});
  const std::optional<double> huge = HugePageShare(memory);
  const bool good = local.value_or(1) > 0.9 && huge.value_or(1) > 0.9;
  return {good,
          fmt::format("64 MiB written from node {}: {} on the node, {} in huge pages", node.os_index,
                      Percent(local), Percent(huge)),
          good ? ""
               : "free memory on that node (see its memory above), allow huge pages, or restart the machine "
                 "if its "
                 "memory is in pieces"};
}

void CheckTopology(std::vector<Finding>& findings) {
  const absl::StatusOr<Topology> topology = DetectTopology();
  if (!topology.ok()) {
    findings.push_back({false, "topology: " + std::string(topology.status().message()),
                        "give this process CPUs and memory of one node (cpuset, numactl)"});
    return;
  }
  for (const NumaNode& node : topology->nodes) {
    findings.push_back({true,
                        fmt::format("node {}: {} CPUs, {:.1f} GiB", node.os_index, node.cpus.size(),
                                    static_cast<double>(node.memory_bytes) / (1 << 30)),
                        ""});
    findings.push_back(TryMemory(node));
  }
  for (const std::string& warning : topology->warnings) {
    // Settings have a finding of their own.
    if (warning.find("numa_balancing") == std::string::npos)
      findings.push_back(
          {false, "topology: " + warning, "widen the cpuset, or leave the node to another worker"});
  }
}

}  // namespace

std::vector<Finding> Preflight() {
  std::vector<Finding> findings;
  CheckTopology(findings);
  findings.push_back({true, "instruction sets: " + DescribeIsas(), ""});
  findings.push_back({true,
                      MakeUringQueue(1) != nullptr
                          ? "weights are read by io_uring"
                          : "weights are read by threads: the kernel or the container forbids io_uring",
                      ""});
  for (Finding& finding : CheckSettings("/")) findings.push_back(std::move(finding));
  return findings;
}

std::string ToString(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings)
    text +=
        f.good ? fmt::format("ok     {}\n", f.what) : fmt::format("check  {}\n       {}\n", f.what, f.advice);
  return text;
}

}  // namespace numoe
