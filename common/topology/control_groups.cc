#include "common/topology/control_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "common/base/check.h"

namespace numoe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMount = "sys/fs/cgroup";

void AddFolders(const fs::path& mount, const std::string& own, std::vector<fs::path>& folders) {
  fs::path folder = mount;
  folders.push_back(folder);
  for (const fs::path& step : fs::path(own)) folders.push_back(folder /= step);
}

// Returns nullopt if the file does not exist or contains "max".
std::optional<int64_t> ReadNumber(const fs::path& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// Reads "QUOTA PERIOD" of version 2, or the two files of version 1, in microseconds. Returns nullopt without
// a quota, which version 2 writes as "max" and version 1 as -1.
std::optional<double> QuotaIn(const fs::path& group) {
  double quota = 0, period = 0;
  std::ifstream version2(group / "cpu.max");
  if (!(version2 >> quota >> period)) {
    quota = static_cast<double>(ReadNumber(group / "cpu.cfs_quota_us").value_or(-1));
    period = static_cast<double>(ReadNumber(group / "cpu.cfs_period_us").value_or(0));
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

// If there is no limit, the file of version 1 contains a number that is larger than any machine's memory.
std::optional<uint64_t> MemoryLimitIn(const fs::path& group) {
  constexpr int64_t kBytesMax = int64_t{1} << 60;
  std::optional<int64_t> limit = ReadNumber(group / "memory.max");
  if (!limit) limit = ReadNumber(group / "memory.limit_in_bytes");
  if (!limit || *limit < 0 || *limit >= kBytesMax) return std::nullopt;
  return static_cast<uint64_t>(*limit);
}

template <typename Value>
std::optional<Value> Least(const fs::path& root, std::string_view controller,
                           std::optional<Value> (*limit_in)(const fs::path&)) {
  std::optional<Value> least;
  for (const fs::path& group : ControlGroupFolders(root, controller)) {
    const std::optional<Value> limit = limit_in(group);
    if (limit && (!least || *limit < *least)) least = limit;
  }
  return least;
}

}  // namespace

std::string ControlGroupOf(const fs::path& root, std::string_view process, std::string_view controller) {
  NUMOE_DCHECK(!process.empty());
  std::ifstream file(root / "proc" / process / "cgroup");
  const std::string wanted = controller.empty() ? ",," : fmt::format(",{},", controller);
  for (std::string line; std::getline(file, line);) {  // ID:CONTROLLERS:/PATH
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.size() < second + 2) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const bool ours =
        controller.empty() ? controllers == wanted : controllers.find(wanted) != std::string::npos;
    const std::string path = line.substr(second + 2);
    if (ours && path.find("..") == std::string::npos) return path;
  }
  return "";
}

std::vector<fs::path> ControlGroupFolders(const fs::path& root, std::string_view controller) {
  NUMOE_DCHECK(!controller.empty());
  std::vector<fs::path> folders;
  AddFolders(root / kMount, ControlGroupOf(root, "self", ""), folders);
  AddFolders(root / kMount / controller, ControlGroupOf(root, "self", controller), folders);
  return folders;
}

std::optional<double> CpuQuotaOf(const fs::path& root) { return Least<double>(root, "cpu", QuotaIn); }

std::optional<uint64_t> MemoryLimitOf(const fs::path& root) {
  return Least<uint64_t>(root, "memory", MemoryLimitIn);
}

}  // namespace numoe
