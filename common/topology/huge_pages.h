// Huge pages that an operator reserved (hugetlbfs), by size and node, and whether enough of them are free.
//
// Transparent huge pages need none of this: they are the default and are taken as the kernel grants them.
// Reserved ones are asked for by name, and where they are missing that is an error that says what to do, not
// a silent fall back. Reads the kernel's files below `root`, "/" but in tests; one that does not exist
// reserves and limits nothing. https://docs.kernel.org/admin-guide/mm/hugetlbpage.html
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe {

enum class HugePages : uint8_t { kTransparent, k2M, k1G };

const char* HugePagesName(HugePages pages);  // "off" "2M" "1G"
/// INVALID_ARGUMENT says what is expected.
absl::StatusOr<HugePages> ParseHugePages(const std::string& name);
/// Of one page; of kTransparent what a weight's memory is aligned to.
uint64_t HugePageBytes(HugePages pages);

struct HugePagePool {
  int node = 0;  // OS number
  uint64_t free = 0;
  uint64_t total = 0;
};
/// Of every node, by number. Empty: the kernel has no such pages, or they are transparent.
std::vector<HugePagePool> HugePagePools(const std::filesystem::path& root, HugePages pages);

/// RESOURCE_EXHAUSTED: not so many bytes of such pages are free on `nodes`, or to this process's cgroup: says
/// how many pages are free on which node, how many are needed, and what to set.
absl::Status RequireHugePages(const std::filesystem::path& root, HugePages pages, uint64_t bytes,
                              const std::vector<int>& nodes);

}  // namespace numoe
