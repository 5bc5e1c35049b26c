// CpuNeighbours: which workers were left the same CPUs, and which part of them is this one's.
//
// A cpuset or an affinity mask may be one worker's, or several workers' together (LXC, Slurm, a container or
// a slice with all daemons), and nothing tells which. So each worker listens at an abstract socket that is
// named by the CPUs and by the lowest number that is free; it looks who else is there, and goes on looking,
// because the first one starts alone. All of them count the same, so nobody hands out parts. The sockets end
// with their processes, however. Abstract sockets have no permissions: only those of our own user count.
//
// It counts in one network namespace: containers with the same --cpuset-cpus do not see each other, and are
// told (--local-workers). Look is for one thread; what Follow calls runs on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/topology/topology.h"

namespace numoe::worker {

class CpuNeighbours {
 public:
  /// RESOURCE_EXHAUSTED: there is no socket to be had, or every number is taken.
  static absl::StatusOr<std::unique_ptr<CpuNeighbours>> Join(const std::vector<int>& cpus);
  CpuNeighbours(const CpuNeighbours&) = delete;
  CpuNeighbours& operator=(const CpuNeighbours&) = delete;
  ~CpuNeighbours();

  /// Who is there now, this one included.
  CpuShare Look();
  /// From now on calls `moved` whenever somebody has come or gone since `known`. Once.
  void Follow(const CpuShare& known, std::function<void(const CpuShare&)> moved);

 private:
  CpuNeighbours() = default;
  bool IsThere(int number);
  void Watch(CpuShare known, const std::function<void(const CpuShare&)>& moved);

  std::string name_;  // of the sockets, without their number
  int number_ = 0;
  FileDescriptor listener_;
  std::set<int> seen_;  // numbers whose sockets were our user's when they last took a connection
  Mutex mutex_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace numoe::worker
