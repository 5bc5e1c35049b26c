#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include "common/base/check.h"
#include "common/topology/control_groups.h"
#include "common/topology/host_memory.h"
#include "common/topology/huge_pages.h"
#include "common/topology/node_room.h"
#include "common/topology/number_list.h"
#include "expert_worker/preflight/preflight.h"
#include "expert_worker/preflight/worker_memory.h"

namespace numoe::worker {
namespace {

namespace fs = std::filesystem;

// Returns the first line; nullopt if there is no such file.
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
       never ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: the kernel gives weights huge "
               "pages, and without them every access pays for address translation"
             : ""});
  const auto defrag = ReadLine(root / "sys/kernel/mm/transparent_hugepage/defrag");
  if (never || !defrag || defrag->find("[never]") == std::string::npos) return;
  out.push_back(
      {"huge_pages_defrag", false, fmt::format("compaction for huge pages: {}", *defrag),
       "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag: fragmented memory is never compacted, and "
       "weights get small pages after the machine has run for a while"});
}

// It is not a problem if there are no reserved pages: only --hugepages needs them.
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

// Memory of a node that other processes use is missing for its worker. The kernel drops cached files for
// memory that is bound to the node. Where policies are forbidden, the first touch takes a page of another
// node instead.
void CheckNodeMemory(const fs::path& root, bool policies_allowed, std::vector<Finding>& out) {
  const fs::path nodes = root / "sys/devices/system/node";
  const bool several = fs::exists(nodes / "node1");
  constexpr double kGib = 1 << 30;
  for (int node = 0; fs::exists(nodes / fmt::format("node{}", node)); ++node) {
    const std::optional<NodeRoom> room = ReadNodeRoom(root, node);
    if (!room) continue;
    const bool held = several && 2 * (room->free + room->files + room->reclaimed) < room->total;
    const bool cached = several && !policies_allowed && room->free < room->files;
    out.push_back(
        {"node_memory", !held && !cached,
         fmt::format("memory of node {}: {:.1f} GiB, of which {:.1f} free and {:.1f} cached files", node,
                     static_cast<double>(room->total) / kGib, static_cast<double>(room->free) / kGib,
                     static_cast<double>(room->files) / kGib),
         held     ? "more than half of it is used by other processes, including shared memory (/dev/shm, "
                    "memfd): end them before a worker of this node starts, or its weights do not fit there"
         : cached ? "echo 1 > /proc/sys/vm/drop_caches before the worker starts: memory policies are "
                    "forbidden here, and if cached files fill a node, its weights are placed on another one"
                  : ""});
  }
}

void CheckLimits(const fs::path& root, std::vector<Finding>& out) {
  if (const auto limit = MemoryLimitOf(root)) {
    out.push_back(
        {"memory_limit", true,
         fmt::format("the cgroup may use {:.1f} GiB of memory", static_cast<double>(*limit) / (1 << 30)),
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
              : "cpupower frequency-set -g performance: a clock that follows the load rises too late for "
                "calls of some hundred microseconds"});
  }
}

void CheckQuota(const fs::path& root, std::vector<Finding>& out) {
  const std::optional<double> quota = CpuQuotaOf(root);
  if (!quota) return;
  const auto cpus = ReadStatusList(root, "Cpus_allowed_list:");
  if (cpus && *quota >= static_cast<double>(cpus->size())) {
    out.push_back(
        {"cpu_quota", true,
         fmt::format("the cgroup may use {:.2f} CPUs on average, as many as this process has, or more",
                     *quota),
         ""});
    return;
  }
  out.push_back(
      {"cpu_quota", false, fmt::format("the cgroup may use {:.2f} CPUs on average", *quota),
       "whole CPUs instead of a quota (Kubernetes: Guaranteed QoS with the static CPU manager; systemd: "
       "AllowedCPUs= instead of CPUQuota=, also of the slices around the unit): a quota stops all threads "
       "in the middle of a layer until its period ends"});
}

void CheckSwap(const fs::path& root, std::vector<Finding>& out) {
  std::ifstream swaps(root / "proc/swaps");
  std::string line;
  int devices = -1;  // the first line is the heading
  while (std::getline(swaps, line)) ++devices;
  if (devices <= 0) return;
  out.push_back({"swap", false, fmt::format("{} swap devices are on", devices),
                 "swapoff -a, or vm.swappiness=0: weights are read rarely enough to be swapped out"});
}

void CheckNumaBalancing(const fs::path& root, std::vector<Finding>& out) {
  const auto value = ReadLine(root / "proc/sys/kernel/numa_balancing");
  if (!value || *value == "0" || !fs::exists(root / "sys/devices/system/node/node1")) return;
  out.push_back({"numa_balancing", false, "kernel.numa_balancing is " + *value,
                 "sysctl kernel.numa_balancing=0: the kernel would look for pages to move although they are "
                 "where they belong, and would move those that no memory policy binds"});
}

// With demotion the kernel moves pages, even bound ones, to memory without CPUs (CXL), which is slower.
void CheckDemotion(const fs::path& root, std::vector<Finding>& out) {
  const auto value = ReadLine(root / "sys/kernel/mm/numa/demotion_enabled");
  if (!value || (*value != "true" && *value != "1")) return;
  out.push_back(
      {"demotion", false, "/sys/kernel/mm/numa/demotion_enabled is " + *value,
       "echo false > /sys/kernel/mm/numa/demotion_enabled: if a node is short of memory, the kernel moves "
       "weights that were not read for a while to slower memory instead of dropping cached files"});
}

// Reads the soft limit of a line such as "Max open files            1024                 1048576
// files". Returns nullopt if it is unlimited or not known.
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

// A checkpoint of a trillion parameters has 64 to 200 files, which are all open while it is read; a session
// needs five descriptors.
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

// Returns what an error message found, and then what to do.
Finding OfError(const char* check, const std::string& what, const absl::Status& error) {
  NUMOE_CHECK(!error.ok());
  const std::string text(error.message());
  const size_t end = std::min(text.find("; "), text.size());
  return {check, false, what + text.substr(0, end), text.substr(std::min(end + 2, text.size()))};
}

// Layer calls use memfd segments, which no mount limits. So a small /dev/shm is not a problem, unlike for
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

std::vector<Finding> CheckSettings(const fs::path& root, bool policies_allowed) {
  std::vector<Finding> findings;
  CheckHugePages(root, findings);
  CheckReservedPages(root, findings);
  CheckNodeMemory(root, policies_allowed, findings);
  CheckLimits(root, findings);
  CheckGovernors(root, findings);
  CheckQuota(root, findings);
  CheckSwap(root, findings);
  CheckNumaBalancing(root, findings);
  CheckDemotion(root, findings);
  CheckDescriptors(root, findings);
  CheckLockedMemory(root, findings);
  CheckSharedMemory(root, findings);
  return findings;
}

std::vector<Finding> CheckReservedPagesFor(const fs::path& root, HugePages pages, uint64_t bytes,
                                           const std::vector<int>& nodes) {
  const absl::Status enough = RequireHugePages(root, pages, bytes, nodes);
  const std::string flag = fmt::format("--hugepages={}: ", HugePagesName(pages));
  if (enough.ok()) return {{"reserved_pages", true, flag + "enough are free", ""}};
  return {OfError("reserved_pages", flag, enough)};
}

std::vector<Finding> CheckMemoryFor(const fs::path& root, const std::vector<WorkerOnNodes>& workers,
                                    const std::string& reservations) {
  NUMOE_CHECK(!workers.empty());
  constexpr double kGib = 1 << 30;
  uint64_t all = 0;
  std::vector<WorkerNeeds> needs;
  std::map<std::vector<int>, uint64_t> by_nodes;
  for (const WorkerOnNodes& worker : workers) {
    all += worker.needs.total();
    needs.push_back(worker.needs);
    by_nodes[worker.nodes] += worker.needs.total();
  }
  std::vector<Finding> findings;
  const auto compare = [&](const char* check, const std::string& has, uint64_t available, uint64_t needed,
                           const char* advice) {
    findings.push_back(
        {check, available >= needed,
         fmt::format("{}, {} {:.2f}", has, workers.size() == 1 ? "the worker needs" : "its workers need",
                     static_cast<double>(needed) / kGib),
         available >= needed ? "" : advice});
  };
  if (const auto limit = MemoryLimitOf(root)) {
    compare("memory_limit", fmt::format("the cgroup may use {:.2f} GiB", static_cast<double>(*limit) / kGib),
            *limit, all, "a higher memory limit, more workers, or a smaller --format");
  }
  if (const absl::StatusOr<HostMemory> host = HostMemory::ReadReservations(reservations, root); !host.ok()) {
    findings.push_back(OfError("memory_available", "", host.status()));
  } else if (host->available() != UINT64_MAX) {
    findings.push_back(CompareWorkerMemory(needs, host->available(), host->Others()));
  }
  for (const auto& [nodes, needed] : by_nodes) {
    const std::vector<NodeRoom> rooms = ReadNodeRooms(root, nodes);
    if (rooms.empty()) continue;
    compare(
        "memory_on_nodes", Describe(rooms), AvailableOn(rooms), needed,
        "free memory on these nodes, more nodes for the worker (--numa-nodes), more workers, or a smaller "
        "--format: weights that do not fit are on other nodes and slower to read, or are refused (--pinning "
        "required)");
  }
  return findings;
}

}  // namespace numoe::worker
