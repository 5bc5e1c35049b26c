#include "expert_worker/tools/cpu_quota.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::worker {
namespace {

constexpr int kPeriodUs = 100'000;

absl::Status Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (file.good()) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("cannot write \"{}\" to {}: {}", text, path, std::strerror(errno)));
}

bool HasCpu(const std::string& list) {
  for (const auto& part : absl::StrSplit(list, ',')) {
    if (part == "cpu") return true;
  }
  return false;
}

// Returns the folder of the process's group that controls its CPU time, by where its hierarchy is mounted.
absl::StatusOr<std::string> FindHome(bool& version2) {
  std::ifstream mounts("/proc/self/mounts"), groups("/proc/self/cgroup");
  std::string line, mount1, mount2, home1, home2;
  while (std::getline(mounts, line)) {
    std::istringstream words(line);
    std::string device, at, type, options;
    words >> device >> at >> type >> options;
    if (type == "cgroup" && HasCpu(options)) mount1 = at;
    if (type == "cgroup2") mount2 = at;
  }
  while (std::getline(groups, line)) {
    const std::pair<std::string, std::string> rest =
        absl::StrSplit(line.substr(line.find(':') + 1), absl::MaxSplits(':', 1));
    if (HasCpu(rest.first)) home1 = mount1 + rest.second;
    if (rest.first.empty()) home2 = mount2 + rest.second;
  }
  version2 = mount1.empty();
  if (!version2) return home1;
  if (!mount2.empty()) return home2;
  return absl::UnavailableError("no control groups are mounted");
}

}  // namespace

absl::StatusOr<CpuQuota> CpuQuota::Create(double cpus) {
  NUMOE_CHECK_GT(cpus, 0.0);
  bool version2 = false;
  ASSIGN_OR_RETURN(std::string home, FindHome(version2));
  const std::string group = fmt::format("{}/numoe-bench-{}", home, getpid());
  // The write is refused if the group contains processes and is not the root; then cpu.max is missing in the
  // new group.
  if (version2) Write(home + "/cgroup.subtree_control", "+cpu").IgnoreError();
  if (mkdir(group.c_str(), 0755) != 0)
    return absl::UnavailableError(fmt::format("cannot make {}: {}", group, std::strerror(errno)));
  CpuQuota quota(std::move(home), group);
  const auto time = static_cast<int>(cpus * kPeriodUs);
  if (version2) {
    RETURN_IF_ERROR(Write(group + "/cpu.max", fmt::format("{} {}", time, kPeriodUs)));
  } else {
    RETURN_IF_ERROR(Write(group + "/cpu.cfs_period_us", std::to_string(kPeriodUs)));
    RETURN_IF_ERROR(Write(group + "/cpu.cfs_quota_us", std::to_string(time)));
  }
  return quota;
}

CpuQuota::~CpuQuota() {
  if (group_.empty()) return;
  Lift().IgnoreError();
  rmdir(group_.c_str());
}

absl::Status CpuQuota::Apply() const { return Write(group_ + "/cgroup.procs", std::to_string(getpid())); }
absl::Status CpuQuota::Lift() const { return Write(home_ + "/cgroup.procs", std::to_string(getpid())); }

}  // namespace numoe::worker
