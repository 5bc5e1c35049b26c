// A CPU quota for this process, as container engines set one: a control group of its own with a limited CPU
// time in each 100 ms (cpu.max of version 2, or cfs_quota_us of version 1).
//
// It affects a thread pool more than another program does: all threads lose their CPUs when the time is used
// up, each at its own moment. It needs root and a writable /sys/fs/cgroup. The group ends with its owner.
// Single-threaded use.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace numoe::worker {

class CpuQuota {
 public:
  /// Creates a group with the time of `cpus` CPUs, which is not applied yet. Unavailable if control groups
  /// cannot be created here; the message says why.
  static absl::StatusOr<CpuQuota> Create(double cpus);
  CpuQuota(CpuQuota&& other) noexcept
      : home_(std::move(other.home_)), group_(std::exchange(other.group_, std::string())) {}
  CpuQuota& operator=(CpuQuota&&) = delete;
  ~CpuQuota();

  absl::Status Apply() const;
  absl::Status Lift() const;

 private:
  CpuQuota(std::string home, std::string group) : home_(std::move(home)), group_(std::move(group)) {}

  std::string home_;   // folder of the group from which the process came
  std::string group_;  // folder of its own group
};

}  // namespace numoe::worker
