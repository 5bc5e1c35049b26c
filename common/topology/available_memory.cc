#include "common/topology/available_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "common/topology/control_groups.h"

namespace numoe {
namespace {

// Returns the number that follows `key` at the beginning of a line; without a key, the file's first word.
std::optional<uint64_t> ReadNumber(const std::filesystem::path& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  while (!key.empty() && file >> word && word != key) file.ignore(4096, '\n');
  if (!(file >> value)) return std::nullopt;
  return value;
}

constexpr const char* kController = "memory";  // the name in version 1

// The files that both versions of cgroups have, under different names.
struct GroupFiles {
  const char* mount;  // of the hierarchy with the memory controller
  const char* limit;  // contains "max", or a number larger than any machine's memory, if there is no limit
  const char* used;
  const char* active_file;  // in memory.stat, child groups included
  const char* inactive_file;
};
constexpr GroupFiles kVersion2 = {"sys/fs/cgroup", "memory.max", "memory.current", "active_file",
                                  "inactive_file"};
constexpr GroupFiles kVersion1 = {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_active_file", "total_inactive_file"};

uint64_t AvailableIn(const std::filesystem::path& group, const GroupFiles& files) {
  const auto limit = ReadNumber(group / files.limit, "");
  const auto used = ReadNumber(group / files.used, "");
  if (!limit || !used) return UINT64_MAX;
  const uint64_t given_up = ReadNumber(group / "memory.stat", files.active_file).value_or(0) +
                            ReadNumber(group / "memory.stat", files.inactive_file).value_or(0);
  const uint64_t needed = *used - std::min(given_up, *used);
  return *limit - std::min(needed, *limit);
}

// Adds the bounds that the process's group and the groups around it set.
void AddGroups(const std::filesystem::path& root, MemoryBound::Of of, std::vector<MemoryBound>& bounds) {
  const bool version2 = of == MemoryBound::Of::kGroupVersion2;
  const GroupFiles& files = version2 ? kVersion2 : kVersion1;
  const auto add = [&](const std::filesystem::path& group) {
    const uint64_t available = AvailableIn(root / files.mount / group, files);
    if (available != UINT64_MAX) bounds.push_back({of, group.string(), available});
  };
  add("");
  std::filesystem::path group;
  for (const std::filesystem::path& step :
       std::filesystem::path(ControlGroupOf(root, "self", version2 ? "" : kController)))
    add(group /= step);
}

// Returns the bytes that ZFS would free on demand: it caches files itself, and MemAvailable leaves that cache
// out.
uint64_t GivenUpByZfs(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/spl/kstat/zfs/arcstats");  // NAME TYPE VALUE
  uint64_t size = 0, kept = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t type = 0, value = 0;
    if (!(words >> name >> type >> value)) continue;
    if (name == "size") size = value;
    if (name == "c_min") kept = value;
  }
  return size - std::min(kept, size);
}

}  // namespace

std::vector<MemoryBound> MemoryBounds(const std::filesystem::path& root) {
  std::vector<MemoryBound> bounds;
  if (const auto kilobytes = ReadNumber(root / "proc/meminfo", "MemAvailable:"))
    bounds.push_back({MemoryBound::Of::kMachine, "", (*kilobytes << 10) + GivenUpByZfs(root)});
  AddGroups(root, MemoryBound::Of::kGroupVersion2, bounds);
  AddGroups(root, MemoryBound::Of::kGroupVersion1, bounds);
  return bounds;
}

bool CountsIn(const MemoryBound& bound, int process, const std::filesystem::path& root) {
  if (bound.of == MemoryBound::Of::kMachine || bound.group.empty()) return true;
  const bool version2 = bound.of == MemoryBound::Of::kGroupVersion2;
  const std::string group = ControlGroupOf(root, std::to_string(process), version2 ? "" : kController);
  return group == bound.group || group.rfind(bound.group + "/", 0) == 0;
}

uint64_t AvailableMemory(const std::filesystem::path& root) {
  uint64_t available = UINT64_MAX;
  for (const MemoryBound& bound : MemoryBounds(root)) available = std::min(available, bound.available);
  return available;
}

}  // namespace numoe
