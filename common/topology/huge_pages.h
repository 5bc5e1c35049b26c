// Huge pages that an operator reserved (hugetlbfs), by size and node, and whether enough of them are free.
//
// Transparent huge pages, the default, need none of this: the kernel grants them as it can. An operator asks
// for reserved pages by a flag; if too few are free, that is an error that says what to do, not a silent
// fallback. Reads the kernel's files below `root`, which is "/" except in tests; a file that does not exist
// reserves nothing and sets no limit. https://docs.kernel.org/admin-guide/mm/hugetlbpage.html
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe {

enum class HugePages : uint8_t { kTransparent, k2M, k1G };

const char* HugePagesName(HugePages pages);  // "off" "2M" "1G"
/// Returns INVALID_ARGUMENT, with the expected names, if `name` is not one of these.
absl::StatusOr<HugePages> ParseHugePages(const std::string& name);
/// Returns the size of one page; for kTransparent 2 MiB, to which the memory of weights is aligned.
uint64_t HugePageBytes(HugePages pages);

struct HugePagePool {
  int node = 0;  // OS number
  uint64_t free = 0;
  uint64_t total = 0;
};
/// Returns the pool of every node, by number; empty if the kernel has no such pages, or for kTransparent.
std::vector<HugePagePool> HugePagePools(const std::filesystem::path& root, HugePages pages);

/// Returns RESOURCE_EXHAUSTED if fewer than `bytes` of such pages are free on `nodes` together, or within the
/// limits of this process's cgroups. The message says how many pages are free on which node, how many are
/// needed, and what to set.
absl::Status RequireHugePages(const std::filesystem::path& root, HugePages pages, uint64_t bytes,
                              const std::vector<int>& nodes);

}  // namespace numoe
