// SharedHome: a worker's home on CPUs that other workers may also use.
//
// If a cpuset or an affinity mask leaves a worker only a part of the machine, the worker takes all these CPUs
// while it is the only worker on them, and takes its part as soon as others come
// (preflight/cpu_neighbours.h). Threads that lose their CPU sleep. Memory is not moved, because all these
// CPUs belong to one node. Otherwise the home is as PlanPlacement plans it, and SharedHome does not look for
// other workers. Main thread; the thread of CpuNeighbours moves the executor's threads.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/topology/topology.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/preflight/cpu_neighbours.h"

namespace numoe::worker {

class SharedHome {
 public:
  /// Finds the home as FindHome does. REQUIRES: the calling thread is not bound to CPUs yet.
  static absl::StatusOr<std::unique_ptr<SharedHome>> Find(const PlacementRequest& request);

  /// Returns the placement as it was found at first, which does not change with the CPUs.
  const Placement& placement() const { return placement_; }
  /// Starts to look for other workers. Call it once, on a thread that runs on the home's CPUs.
  void Follow();

  /// While an object of this class exists, the executor's threads move to the CPUs of this worker's part.
  class Move {
   public:
    Move(SharedHome& home, ExpertExecutor& executor);
    Move(const Move&) = delete;
    Move& operator=(const Move&) = delete;
    ~Move();

   private:
    SharedHome& home_;
  };

 private:
  SharedHome(Topology topology, const PlacementRequest& request)
      : topology_(std::move(topology)), request_(request) {}
  void OnMoved(const CpuShare& share);
  void Apply() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Topology topology_;
  const PlacementRequest request_;
  Placement placement_;
  CpuShare found_;  // the part at first
  Mutex mutex_;
  CpuShare share_ ABSL_GUARDED_BY(mutex_);  // the current part
  ExpertExecutor* executor_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Null if no other workers are looked for. The last member: its thread ends before the others are
  // destroyed.
  std::unique_ptr<CpuNeighbours> neighbours_;
};

}  // namespace numoe::worker
