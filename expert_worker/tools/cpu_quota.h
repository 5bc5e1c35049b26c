// A CPU quota on this process, as container engines set one: a control group of its own with so much CPU time
// in each 100 ms (version 2's cpu.max, or version 1's cfs_quota_us).
//
// What it does to a thread pool is what a busy neighbour does and more: all threads lose their CPUs when the
// time is used up, each at its own moment. Needs root and a writable /sys/fs/cgroup; the group ends with its
// owner. Single-threaded use.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace numoe::worker {

class CpuQuota {
 public:
  /// The time of `cpus` CPUs; not applied yet. Unavailable: control groups cannot be made here, and why.
  static absl::StatusOr<CpuQuota> Create(double cpus);
  CpuQuota(CpuQuota&& other) noexcept
      : home_(std::move(other.home_)), group_(std::exchange(other.group_, std::string())) {}
  CpuQuota& operator=(CpuQuota&&) = delete;
  ~CpuQuota();

  absl::Status Apply() const;
  absl::Status Lift() const;

 private:
  CpuQuota(std::string home, std::string group) : home_(std::move(home)), group_(std::move(group)) {}

  std::string home_;   // folder of the group the process came from
  std::string group_;  // folder of its own
};

}  // namespace numoe::worker
