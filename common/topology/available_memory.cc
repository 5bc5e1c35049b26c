#include "common/topology/available_memory.h"

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

}  // namespace

uint64_t AvailableMemory(const std::filesystem::path& root) {
  uint64_t available = UINT64_MAX;
  if (const auto kilobytes = ReadNumber(root / "proc/meminfo", "MemAvailable:")) available = *kilobytes << 10;
  const std::filesystem::path group = root / "sys/fs/cgroup";
  const auto limit = ReadNumber(group / "memory.max", "");  // "max" is no number
  const auto used = ReadNumber(group / "memory.current", "");
  if (limit && used) {
    const uint64_t files = ReadNumber(group / "memory.stat", "active_file").value_or(0) +
                           ReadNumber(group / "memory.stat", "inactive_file").value_or(0);
    const uint64_t needed = *used - std::min(files, *used);
    available = std::min(available, *limit - std::min(needed, *limit));
  }
  return available;
}

}  // namespace numoe
