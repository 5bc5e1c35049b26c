#include "expert_worker/startup/shared_home.h"

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "expert_worker/experts/worker_home.h"

namespace numoe::worker {

absl::StatusOr<std::unique_ptr<SharedHome>> SharedHome::Find(const PlacementRequest& request) {
  ASSIGN_OR_RETURN(Placement placement, FindHome(request));
  ASSIGN_OR_RETURN(Topology topology, DetectTopology());
  auto home = std::unique_ptr<SharedHome>(new SharedHome(std::move(topology), request));
  home->placement_ = std::move(placement);
  if (!home->placement_.asks) return home;
  auto neighbours = CpuNeighbours::Join(home->placement_.node_cpus);
  if (!neighbours.ok()) {
    LogWarning("{}; so this worker takes all CPUs that it may use",
               std::string(neighbours.status().message()));
    return home;
  }
  home->neighbours_ = *std::move(neighbours);
  home->found_ = home->neighbours_->Count();
  PlacementRequest shared = request;
  shared.found = home->found_;
  ASSIGN_OR_RETURN(home->placement_, PlanPlacement(home->topology_, shared));
  const MutexLock lock(home->mutex_);
  home->share_ = home->found_;
  return home;
}

void SharedHome::Follow() {
  if (neighbours_ != nullptr) neighbours_->Follow(found_, [this](const CpuShare& share) { OnMoved(share); });
}

void SharedHome::OnMoved(const CpuShare& share) {
  NUMOE_CHECK(0 <= share.place && share.place < share.sharing) << share.place << " of " << share.sharing;
  if (share.sharing == 1) {
    LogInfo("this worker is now the only one on its CPUs, and takes all of them");
  } else {
    LogInfo("{} workers share these CPUs, and this one uses share {} of {}", share.sharing, share.place + 1,
            share.sharing);
  }
  const MutexLock lock(mutex_);
  share_ = share;
  Apply();
}

void SharedHome::Apply() {
  if (executor_ == nullptr) return;
  PlacementRequest shared = request_;
  shared.found = share_;
  const absl::StatusOr<Placement> plan = PlanPlacement(topology_, shared);
  if (!plan.ok()) return;
  NUMOE_CHECK(plan->nodes == placement_.nodes && !plan->cpus.empty()) << "memory cannot move to other nodes";
  executor_->MoveTo(plan->cpus);
}

SharedHome::Move::Move(SharedHome& home, ExpertExecutor& executor) : home_(home) {
  const MutexLock lock(home_.mutex_);
  NUMOE_CHECK(home_.executor_ == nullptr) << "a home has one executor";
  home_.executor_ = &executor;
  if (home_.share_ != home_.found_) home_.Apply();  // a worker came or went during the load
}

SharedHome::Move::~Move() {
  const MutexLock lock(home_.mutex_);
  home_.executor_ = nullptr;
}

}  // namespace numoe::worker
