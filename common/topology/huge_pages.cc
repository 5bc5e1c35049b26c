#include "common/topology/huge_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

#include "common/base/check.h"
#include "common/topology/control_groups.h"

namespace numoe {
namespace {

namespace fs = std::filesystem;

// The names of a page size in sysfs and in the cgroup's files.
struct SizeNames {
  const char* sysfs;
  const char* cgroup;
};
SizeNames NamesOf(HugePages pages) {
  return pages == HugePages::k1G ? SizeNames{"hugepages-1048576kB", "1GB"}
                                 : SizeNames{"hugepages-2048kB", "2MB"};
}

// Returns UINT64_MAX if the file does not exist or contains "max".
uint64_t ReadCount(const fs::path& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : UINT64_MAX;
}

fs::path NodeFolder(const fs::path& root, int node) {
  return root / fmt::format("sys/devices/system/node/node{}", node);
}

absl::Status RequireCgroup(const fs::path& root, HugePages pages, uint64_t bytes) {
  NUMOE_DCHECK_EQ(bytes % HugePageBytes(pages), 0u);
  const std::string name = fmt::format("hugetlb.{}", NamesOf(pages).cgroup);
  for (const fs::path& group : ControlGroupFolders(root, "hugetlb")) {
    const bool first_version = fs::exists(group / (name + ".limit_in_bytes"));
    const std::string limited = name + (first_version ? ".limit_in_bytes" : ".max");
    const uint64_t limit = ReadCount(group / limited);
    const uint64_t used = ReadCount(group / (name + (first_version ? ".usage_in_bytes" : ".current")));
    if (limit == UINT64_MAX || used == UINT64_MAX || (used <= limit && limit - used >= bytes)) continue;
    return absl::ResourceExhaustedError(
        fmt::format("the cgroup may use {} bytes of {} pages and already uses {}, but {} more are needed; "
                    "raise {} (Kubernetes: the container's limit hugepages-{}i)",
                    limit, HugePagesName(pages), used, bytes, limited, HugePagesName(pages)));
  }
  return absl::OkStatus();
}

}  // namespace

const char* HugePagesName(HugePages pages) {
  return pages == HugePages::k2M ? "2M" : pages == HugePages::k1G ? "1G" : "off";
}

absl::StatusOr<HugePages> ParseHugePages(const std::string& name) {
  for (const HugePages pages : {HugePages::kTransparent, HugePages::k2M, HugePages::k1G})
    if (name == HugePagesName(pages)) return pages;
  return absl::InvalidArgumentError(fmt::format("found \"{}\", expected off, 2M or 1G", name));
}

uint64_t HugePageBytes(HugePages pages) {
  return pages == HugePages::k1G ? uint64_t{1} << 30 : uint64_t{2} << 20;
}

std::vector<HugePagePool> HugePagePools(const fs::path& root, HugePages pages) {
  std::vector<HugePagePool> pools;
  if (pages == HugePages::kTransparent) return pools;
  constexpr int kNodesMax = 1024;  // the kernel's largest configuration
  for (int node = 0; node < kNodesMax; ++node) {
    const fs::path folder = NodeFolder(root, node) / "hugepages" / NamesOf(pages).sysfs;
    const uint64_t free = ReadCount(folder / "free_hugepages");
    const uint64_t total = ReadCount(folder / "nr_hugepages");
    if (free != UINT64_MAX && total != UINT64_MAX) pools.push_back({node, free, total});
  }
  return pools;
}

absl::Status RequireHugePages(const fs::path& root, HugePages pages, uint64_t bytes,
                              const std::vector<int>& nodes) {
  NUMOE_CHECK(pages != HugePages::kTransparent);
  NUMOE_CHECK(!nodes.empty());
  const uint64_t page = HugePageBytes(pages);
  const uint64_t needed = (bytes + page - 1) / page;
  uint64_t free = 0;
  std::vector<std::string> found, commands;
  for (const HugePagePool& pool : HugePagePools(root, pages)) {
    if (std::find(nodes.begin(), nodes.end(), pool.node) == nodes.end()) continue;
    free += pool.free;
    found.push_back(fmt::format("{} of {} on node {}", pool.free, pool.total, pool.node));
    const uint64_t share = (needed + nodes.size() - 1) / nodes.size();
    commands.push_back(fmt::format("echo {} > /sys/devices/system/node/node{}/hugepages/{}/nr_hugepages",
                                   pool.total - pool.free + share, pool.node, NamesOf(pages).sysfs));
  }
  if (free >= needed) return RequireCgroup(root, pages, needed * page);
  const std::string have = found.empty()
                               ? fmt::format("the kernel has none on nodes {}", fmt::join(nodes, ", "))
                               : fmt::format("only {} are free ({})", free, fmt::join(found, ", "));
  const std::string advice =
      found.empty() ? "boot with hugepagesz=1G, or choose another size"
                    : fmt::format(
                          "reserve them: {} (or sysctl vm.nr_hugepages for 2M pages on all nodes; reserve 1G "
                          "pages at boot if possible, with hugepagesz=1G hugepages=N)",
                          fmt::join(commands, "; "));
  return absl::ResourceExhaustedError(
      fmt::format("{} pages of {} are needed, but {}; {}", needed, HugePagesName(pages), have, advice));
}

}  // namespace numoe
