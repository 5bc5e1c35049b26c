// FairQueue: the waiting sequences, in a line for each tenant. OrderByTurns: the order of the running ones.
//
// A line is sorted by priority (lower first), then by arrival. FairShares decides which line is next. Engine
// thread only.
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
  /// Removes the first sequence of the tenant's line and returns it. REQUIRES: the tenant has a line.
  SequencePtr TakeFirst(int tenant);
  void ForEach(absl::FunctionRef<void(Sequence&)> visit);
  /// Removes the sequences that have ended, after it has called `finish` with each of them.
  void RemoveEnded(absl::FunctionRef<void(Sequence&)> finish);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  TenantLines Lines() const;
  /// Returns when the first sequence of the tenant's line arrived. REQUIRES: the tenant has a line.
  std::chrono::steady_clock::time_point FirstArrival(int tenant) const {
    return lines_.at(tenant).front()->arrived;
  }

 private:
  std::map<int, std::deque<SequencePtr>> lines_;  // none is empty
  int size_ = 0;
};

/// Sorts the running sequences: the first gets KV blocks first, and the last is preempted first. The
/// sequences of a tenant are sorted by priority, then by arrival. Then the tenants take turns, each with
/// `weight` sequences at a time. So priorities do not affect other tenants, and a tenant with many sequences
/// is preempted first.
void OrderByTurns(std::vector<SequencePtr>& running);

}  // namespace numoe::engine
