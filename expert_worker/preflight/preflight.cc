#include "expert_worker/preflight/preflight.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "common/kernels/kernels.h"
#include "common/topology/topology.h"

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
  CheckGovernors(root, findings);
  CheckQuota(root, findings);
  CheckSwap(root, findings);
  CheckNumaBalancing(root, findings);
  return findings;
}

std::vector<Finding> Preflight() {
  std::vector<Finding> findings;
  const absl::StatusOr<Topology> topology = DetectTopology();
  if (!topology.ok()) {
    findings.push_back({false, "topology: " + std::string(topology.status().message()),
                        "give this process CPUs and memory of one node (cpuset, numactl)"});
  } else {
    for (const NumaNode& node : topology->nodes) {
      findings.push_back({true,
                          fmt::format("node {}: {} CPUs, {:.1f} GiB", node.os_index, node.cpus.size(),
                                      static_cast<double>(node.memory_bytes) / (1 << 30)),
                          ""});
    }
    for (const std::string& warning : topology->warnings) {
      // Settings have a finding of their own.
      if (warning.find("numa_balancing") == std::string::npos)
        findings.push_back(
            {false, "topology: " + warning, "widen the cpuset, or leave the node to another worker"});
    }
  }
  findings.push_back({true, "instruction sets: " + DescribeIsas(), ""});
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
