// CpuNeighbours: finds out which workers may use the same CPUs, and which part of them this worker takes.
//
// A cpuset or an affinity mask may belong to one worker or to several workers together (LXC, Slurm, a
// container or a slice with all daemons), and nothing says which. So each worker listens at an abstract
// socket whose name contains the CPUs and the lowest free number, and counts the other sockets. It counts
// again and again, because the first worker starts alone. All workers get the same result, so no process has
// to distribute the parts. The sockets end with their processes, however these end. Abstract sockets have no
// permissions, so only those of our own user count.
//
// It counts within one network namespace: containers with the same --cpuset-cpus do not see each other, and
// need --local-workers. One thread calls Count; what Follow calls runs on a thread of its own.
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
  /// RESOURCE_EXHAUSTED if no socket can be opened, or if every number is taken.
  static absl::StatusOr<std::unique_ptr<CpuNeighbours>> Join(const std::vector<int>& cpus);
  CpuNeighbours(const CpuNeighbours&) = delete;
  CpuNeighbours& operator=(const CpuNeighbours&) = delete;
  ~CpuNeighbours();

  /// Returns the number of workers now, including this one, and this one's part.
  CpuShare Count();
  /// From now on calls `moved` whenever a worker has come or gone since `known`. Call it once.
  void Follow(const CpuShare& known, std::function<void(const CpuShare&)> moved);

 private:
  CpuNeighbours() = default;
  bool IsThere(int number);
  void Watch(CpuShare known, const std::function<void(const CpuShare&)>& moved);

  std::string name_;  // of the sockets, without their number
  int number_ = 0;
  FileDescriptor listener_;
  std::set<int> seen_;  // numbers whose sockets belonged to our user when they last accepted a connection
  Mutex mutex_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace numoe::worker
