#include "common/topology/available_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace numoe {
namespace {

// The number behind `key` at the beginning of a line; without a key, the file's first word.
std::optional<uint64_t> ReadNumber(const std::filesystem::path& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  while (!key.empty() && file >> word && word != key) file.ignore(4096, '\n');
  if (!(file >> value)) return std::nullopt;
  return value;
}

// Both versions of cgroups have these under names of their own.
struct GroupFiles {
  const char* mount;  // of the hierarchy that has memory
  const char* limit;  // "max", or a number beyond every machine: none
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

// Where this process is below the mount: "" in a container that sees its own group as the root, or no other.
std::string OwnGroup(const std::filesystem::path& root, bool version2) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // ID:CONTROLLERS:/PATH
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.size() < second + 2) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool ours = version2 ? controllers == ",," : controllers.find(",memory,") != std::string::npos;
    const std::string path = line.substr(second + 2);
    if (ours && path.find("..") == std::string::npos) return path;
  }
  return "";
}

// The least that the process's group and those around it leave.
uint64_t AvailableInGroups(const std::filesystem::path& root, const GroupFiles& files, bool version2) {
  uint64_t available = AvailableIn(root / files.mount, files);
  std::filesystem::path group = root / files.mount;
  for (const std::filesystem::path& step : std::filesystem::path(OwnGroup(root, version2))) {
    group /= step;
    available = std::min(available, AvailableIn(group, files));
  }
  return available;
}

}  // namespace

uint64_t AvailableMemory(const std::filesystem::path& root) {
  uint64_t available = UINT64_MAX;
  if (const auto kilobytes = ReadNumber(root / "proc/meminfo", "MemAvailable:")) available = *kilobytes << 10;
  return std::min({available, AvailableInGroups(root, kVersion2, /*version2=*/true),
                   AvailableInGroups(root, kVersion1, /*version2=*/false)});
}

}  // namespace numoe
