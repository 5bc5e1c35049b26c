#include "coordinator/engine/scheduler/fair_slots.h"

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "coordinator/engine/scheduler/scheduler_limits.h"

namespace numoe::engine {
namespace {

bool IsOver(FairSlots::Time since, FairSlots::Time now, int seconds) {
  return now - since > std::chrono::seconds(seconds);
}

// Returns whether a tenant without a running sequence has waited longer than kFairWaitSeconds.
bool ATenantWaitsTooLong(const std::vector<SequencePtr>& running, const FairQueue& waiting,
                         FairSlots::Time now) {
  std::set<int> run;
  for (const SequencePtr& s : running) run.insert(s->request.tenant.id);
  for (const auto& [tenant, line] : waiting.Lines()) {
    if (run.count(tenant) == 0 && IsOver(waiting.FirstArrival(tenant), now, limits::kFairWaitSeconds))
      return true;
  }
  return false;
}

}  // namespace

FairSlots::FairSlots(int sequences_max) : sequences_max_(sequences_max) { NUMOE_CHECK_GT(sequences_max, 0); }

int FairSlots::Kept(const std::vector<SequencePtr>& running, const TenantLines& waiting, Time now) {
  std::erase_if(last_seen_,
                [&](const auto& seen) { return IsOver(seen.second, now, limits::kFairSlotSeconds); });
  if (sequences_max_ < 2) return 0;
  std::set<int> away;
  for (const auto& [tenant, when] : last_seen_) away.insert(tenant);
  for (const SequencePtr& s : running) away.erase(s->request.tenant.id);
  for (const auto& [tenant, line] : waiting) away.erase(tenant);
  const int most = std::max(1, sequences_max_ / limits::kFairSlotsPerKept);
  return std::min(static_cast<int>(away.size()), most);
}

// The last sequence in order belongs to a tenant with the most running ones for its weight. The planner keeps
// the freed slot for tenants without one.
Sequence* FairSlots::ToGiveUp(const std::vector<SequencePtr>& running, const FairQueue& waiting,
                              Time now) const {
  if (static_cast<int>(running.size()) < sequences_max_ || waiting.empty()) return nullptr;
  if (!ATenantWaitsTooLong(running, waiting, now)) return nullptr;
  Sequence& last = *running.back();
  const auto same = [&](const SequencePtr& s) { return s->request.tenant.id == last.request.tenant.id; };
  return std::count_if(running.begin(), running.end(), same) < 2 ? nullptr : &last;
}

}  // namespace numoe::engine
