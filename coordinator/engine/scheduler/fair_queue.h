// FairQueue: the sequences that wait, a line for each tenant, and the order of those that run.
//
// A line is in order of priority (lower first), then arrival. Which line goes next is FairShares' business.
// Engine thread only.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/check.h"
#include "coordinator/engine/scheduler/sequence.h"
#include "coordinator/engine/scheduler/tenant_lines.h"

namespace numoe::engine {

class FairQueue {
 public:
  void Add(SequencePtr s);
  Sequence& At(int tenant, int index) {
    NUMOE_DCHECK(0 <= index && static_cast<size_t>(index) < lines_.at(tenant).size());
    return *lines_.at(tenant)[static_cast<size_t>(index)];
  }
  /// The first of the tenant's line leaves it. REQUIRES: the tenant has one.
  SequencePtr TakeFirst(int tenant);
  void ForEach(absl::FunctionRef<void(Sequence&)> visit);
  /// Those that have ended leave it, and `finish` is called with each.
  void RemoveEnded(absl::FunctionRef<void(Sequence&)> finish);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  TenantLines Lines() const;
  /// When the first of the line came. REQUIRES: the tenant has one.
  std::chrono::steady_clock::time_point FirstArrival(int tenant) const {
    return lines_.at(tenant).front()->arrived;
  }

 private:
  std::map<int, std::deque<SequencePtr>> lines_;  // none is empty
  int size_ = 0;
};

/// Puts those who run in the order in which they are given blocks, and lose them last: each tenant's by
/// priority and arrival, and tenants by turns, `weight` of its sequences at each. So priorities reach no
/// other tenant, and who has most gives way first.
void OrderByTurns(std::vector<SequencePtr>& running);

}  // namespace numoe::engine
