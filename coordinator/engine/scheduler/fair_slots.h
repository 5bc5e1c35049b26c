// FairSlots: keeps slots among the running sequences for tenants that have no running sequence.
//
// After a tenant's last sequence has ended, a slot is kept for it for a short time, so that a program that
// sends one request after another finds a slot again. If all slots are taken and a tenant without a running
// sequence has waited for long, the last running sequence in order must give up its slot, unless it is its
// tenant's only one. This class decides by tenants and times only; the scheduler preempts. Engine thread
// only.
#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "coordinator/engine/scheduler/fair_queue.h"

namespace numoe::engine {

class FairSlots {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `sequences_max`: how many sequences may run at the same time.
  explicit FairSlots(int sequences_max);

  /// Call this when a sequence of the tenant has ended.
  void Ended(int tenant, Time now) { last_seen_[tenant] = now; }
  /// Returns the number of slots to keep for tenants whose last sequence ended a short time ago and that have
  /// none now.
  int Kept(const std::vector<SequencePtr>& running, const TenantLines& waiting, Time now);
  /// Returns the sequence that must give up its slot now; null if there is none. REQUIRES: `running` is in
  /// order (OrderByTurns).
  Sequence* ToGiveUp(const std::vector<SequencePtr>& running, const FairQueue& waiting, Time now) const;

 private:
  const int sequences_max_;
  std::map<int, Time> last_seen_;  // when a tenant's last sequence ended, for a while
};

}  // namespace numoe::engine
