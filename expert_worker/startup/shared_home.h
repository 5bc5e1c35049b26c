// SharedHome: a worker's home on CPUs that other workers may have been left as well.
//
// Where a cpuset or an affinity mask leaves a worker a part of the machine, it takes all of it while it is
// alone there, and its part from when others come (preflight/cpu_neighbours.h): threads that lose their CPU
// sleep. Memory stays where it is: all of them live on one node. Elsewhere the home is as planned, and nobody
// is looked for. Main thread; the executor's threads are moved by a thread of this one.
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
  /// As FindHome. Before this thread is bound to anything.
  static absl::StatusOr<std::unique_ptr<SharedHome>> Find(const PlacementRequest& request);

  /// As it was found.
  const Placement& placement() const { return placement_; }
  /// Starts to look for others. Once, from a thread that runs on the home's CPUs.
  void Follow();

  /// An executor's threads follow while this lives.
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
  CpuShare found_;
  Mutex mutex_;
  CpuShare share_ ABSL_GUARDED_BY(mutex_);  // as it is now
  ExpertExecutor* executor_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<CpuNeighbours> neighbours_;  // null: nobody is looked for. Last: its thread ends first
};

}  // namespace numoe::worker
