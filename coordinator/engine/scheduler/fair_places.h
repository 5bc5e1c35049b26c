// FairPlaces: places among those who run, for tenants of which nothing runs.
//
// A place is kept for a while for a tenant whose last sequence has just ended: a program that asks one thing
// after the other finds it again. And where all places are taken and such a tenant has waited for long, the
// last in the order of running gives its place up, if its tenant has another. It looks at tenants and times
// only, and moves nobody. Engine thread only.
#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "coordinator/engine/scheduler/fair_queue.h"

namespace numoe::engine {

class FairPlaces {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// So many run at once, at most.
  explicit FairPlaces(int sequences_max);

  /// A sequence of the tenant's has ended.
  void Ended(int tenant, Time now) { last_seen_[tenant] = now; }
  /// Places for tenants that have nothing here, and had something a moment ago.
  int Kept(const std::vector<SequencePtr>& running, const TenantLines& waiting, Time now);
  /// Who gives its place up now; null: nobody. `running` is in order (OrderByTurns).
  Sequence* ToGiveUp(const std::vector<SequencePtr>& running, const FairQueue& waiting, Time now) const;

 private:
  const int sequences_max_;
  std::map<int, Time> last_seen_;  // when a tenant's last sequence ended, for a while
};

}  // namespace numoe::engine
