#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "common/topology/available_memory.h"
#include "common/topology/huge_pages.h"
#include "expert_worker/preflight/preflight.h"

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
      {"huge_pages", !never, fmt::format("transparent huge pages: {}", *modes),
       never ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: weights are asked for in huge "
               "pages, and without them every access pays for address translation"
             : ""});
  const auto defrag = ReadLine(root / "sys/kernel/mm/transparent_hugepage/defrag");
  if (never || !defrag || defrag->find("[never]") == std::string::npos) return;
  out.push_back(
      {"huge_pages_defrag", false, fmt::format("making huge pages: {}", *defrag),
       "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag: memory that is in pieces is never put "
       "together, and weights get small pages after the machine has run for a while"});
}

// Reserved ones are no fault where there are none: only --hugepages wants them.
void CheckReservedPages(const fs::path& root, std::vector<Finding>& out) {
  bool known = false, any = false;
  for (const HugePages pages : {HugePages::k2M, HugePages::k1G}) {
    for (const HugePagePool& pool : HugePagePools(root, pages)) {
      known = true;
      if (pool.total == 0) continue;
      any = true;
      out.push_back({"reserved_pages", true,
                     fmt::format("reserved huge pages of {} on node {}: {} of {} are free",
                                 HugePagesName(pages), pool.node, pool.free, pool.total),
                     ""});
    }
  }
  if (known && !any)
    out.push_back({"reserved_pages", true, "no huge pages are reserved: transparent ones are used", ""});
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
        {"node_memory", good,
         fmt::format("memory of node {}: {:.1f} GiB, of which {:.1f} free and {:.1f} cached files", node,
                     total / kGib, free / kGib, files / kGib),
         good ? ""
              : "echo 1 > /proc/sys/vm/drop_caches before the worker starts: where cached files fill a "
                "node, its weights spill to another one"});
  }
}

void CheckLimits(const fs::path& root, std::vector<Finding>& out) {
  if (const auto limit = ReadLine(root / "sys/fs/cgroup/memory.max"); limit && *limit != "max") {
    out.push_back({"memory_limit", true,
                   fmt::format("the cgroup may use {:.1f} GiB of memory",
                               std::strtod(limit->c_str(), nullptr) / (1 << 30)),
                   ""});
  }
  if (const auto mode = ReadLine(root / "proc/sys/vm/overcommit_memory"); mode && *mode == "2") {
    out.push_back(
        {"overcommit", false, "vm.overcommit_memory is 2",
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
        {"governor", good, fmt::format("frequency governor of {} CPUs: {}", cpus, governor),
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
      {"cpu_quota", false,
       fmt::format("the cgroup may use {:.2f} CPUs on average (cpu.max: {})", quota / period, *line),
       "whole CPUs instead of a quota (Kubernetes: Guaranteed QoS with the static CPU manager): a quota "
       "stops all threads in the middle of a layer until its period ends"});
}

void CheckSwap(const fs::path& root, std::vector<Finding>& out) {
  std::ifstream swaps(root / "proc/swaps");
  std::string line;
  int devices = -1;  // the first line is the heading
  while (std::getline(swaps, line)) ++devices;
  if (devices <= 0) return;
  out.push_back(
      {"swap", false, fmt::format("{} swap devices are on", devices),
       "swapoff -a, or vm.swappiness=0: weights are memory that is read rarely enough to be swapped out"});
}

void CheckNumaBalancing(const fs::path& root, std::vector<Finding>& out) {
  const auto value = ReadLine(root / "proc/sys/kernel/numa_balancing");
  if (!value || *value == "0" || !fs::exists(root / "sys/devices/system/node/node1")) return;
  out.push_back(
      {"numa_balancing", false, "kernel.numa_balancing is " + *value,
       "sysctl kernel.numa_balancing=0: the kernel moves pages that are already where they belong"});
}

// "Max open files            1024                 1048576              files": the soft one; nullopt:
// unlimited, or not known.
std::optional<uint64_t> SoftLimit(const fs::path& root, const std::string& name) {
  std::ifstream file(root / "proc/self/limits");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const char* const text = line.c_str() + name.size();
    char* end = nullptr;
    const uint64_t value = std::strtoull(text, &end, 10);
    if (end != text) return value;
  }
  return std::nullopt;
}

// A checkpoint of a trillion parameters has 64 to 200 files, each open while it is read; a session takes
// five.
void CheckDescriptors(const fs::path& root, std::vector<Finding>& out) {
  constexpr uint64_t kDescriptorsMin = 1'024;
  const auto limit = SoftLimit(root, "Max open files");
  if (!limit) return;
  const bool good = *limit >= kDescriptorsMin;
  out.push_back({"descriptors", good, fmt::format("{} files may be open", *limit),
                 good ? ""
                      : fmt::format("ulimit -n {} (systemd: LimitNOFILE=): the checkpoint's files and "
                                    "connections are open at once",
                                    kDescriptorsMin)});
}

void CheckLockedMemory(const fs::path& root, std::vector<Finding>& out) {
  constexpr uint64_t kLockedMin = 8 << 20;  // the kernel's default since 5.16
  const auto limit = SoftLimit(root, "Max locked memory");
  if (!limit) return;
  const bool good = *limit >= kLockedMin;
  out.push_back({"locked_memory", good, fmt::format("{} KiB of memory may be locked", *limit >> 10),
                 good
                     ? ""
                     : "ulimit -l 8192 (systemd: LimitMEMLOCK=): kernels before 5.12 count io_uring's queues "
                       "there, and without them weights are read by threads"});
}

// Layer calls go through memfd segments, which no mount limits: a small /dev/shm is no fault, unlike with
// servers that keep their tensors there.
void CheckSharedMemory(const fs::path& root, std::vector<Finding>& out) {
  struct statvfs info {};
  if (statvfs((root / "dev/shm").c_str(), &info) != 0) return;
  out.push_back({"shared_memory", true,
                 fmt::format("/dev/shm has {} MiB, of which NUMoE needs none: layer calls go through memfd "
                             "segments, which count as this cgroup's memory",
                             (info.f_blocks * info.f_frsize) >> 20),
                 ""});
}

}  // namespace

std::vector<Finding> CheckSettings(const fs::path& root) {
  std::vector<Finding> findings;
  CheckHugePages(root, findings);
  CheckReservedPages(root, findings);
  CheckNodeMemory(root, findings);
  CheckLimits(root, findings);
  CheckGovernors(root, findings);
  CheckQuota(root, findings);
  CheckSwap(root, findings);
  CheckNumaBalancing(root, findings);
  CheckDescriptors(root, findings);
  CheckLockedMemory(root, findings);
  CheckSharedMemory(root, findings);
  return findings;
}

std::vector<Finding> CheckReservedPagesFor(const fs::path& root, HugePages pages, uint64_t bytes,
                                           const std::vector<int>& nodes) {
  const absl::Status enough = RequireHugePages(root, pages, bytes, nodes);
  if (enough.ok())
    return {
        {"reserved_pages", true, fmt::format("--hugepages={}: enough are free", HugePagesName(pages)), ""}};
  const std::string text(enough.message());
  const size_t advice = text.find("; ");  // what was found, then what to do
  return {{"reserved_pages", false,
           fmt::format("--hugepages={}: {}", HugePagesName(pages), text.substr(0, advice)),
           text.substr(advice + 2)}};
}

std::vector<Finding> CheckMemoryFor(const fs::path& root, uint64_t weight_bytes) {
  // Beside the weights: code, threads, a batch's scratch, rings and buffers of loading.
  const uint64_t needed = weight_bytes + weight_bytes / 20 + (uint64_t{256} << 20);
  const auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  std::vector<Finding> findings;
  if (const auto line = ReadLine(root / "sys/fs/cgroup/memory.max"); line && *line != "max") {
    const uint64_t limit = std::strtoull(line->c_str(), nullptr, 10);
    findings.push_back(
        {"memory_limit", limit >= needed,
         fmt::format("the cgroup may use {:.2f} GiB, the worker needs {:.2f}", gib(limit), gib(needed)),
         limit >= needed ? "" : "a higher memory limit, more workers, or a smaller --format"});
  }
  const uint64_t available = AvailableMemory(root);
  if (available == UINT64_MAX) return findings;
  findings.push_back(
      {"memory_available", available >= needed,
       fmt::format("{:.2f} GiB are available, the worker needs {:.2f}", gib(available), gib(needed)),
       available >= needed ? "" : "free memory, more workers on other machines, or a smaller --format"});
  return findings;
}

}  // namespace numoe
