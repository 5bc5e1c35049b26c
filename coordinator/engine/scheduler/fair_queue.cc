#include "coordinator/engine/scheduler/fair_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace numoe::engine {
namespace {

bool GoesBefore(const SequencePtr& a, const SequencePtr& b) { return a->GoesBefore(*b); }

}  // namespace

void FairQueue::Add(SequencePtr s) {
  NUMOE_CHECK(s != nullptr && s->kv.blocks.empty()) << "a waiting sequence holds no blocks";
  std::deque<SequencePtr>& line = lines_[s->request.tenant.id];
  line.insert(std::upper_bound(line.begin(), line.end(), s, GoesBefore), std::move(s));
  ++size_;
}

SequencePtr FairQueue::TakeFirst(int tenant) {
  const auto line = lines_.find(tenant);
  NUMOE_CHECK(line != lines_.end() && !line->second.empty()) << "tenant " << tenant;
  SequencePtr first = std::move(line->second.front());
  line->second.pop_front();
  if (line->second.empty()) lines_.erase(line);
  --size_;
  NUMOE_CHECK_GE(size_, static_cast<int>(lines_.size())) << "no line is empty";
  return first;
}

void FairQueue::ForEach(absl::FunctionRef<void(Sequence&)> visit) {
  for (const auto& [tenant, line] : lines_) {
    for (const SequencePtr& s : line) visit(*s);
  }
}

void FairQueue::RemoveEnded(absl::FunctionRef<void(Sequence&)> finish) {
  for (auto it = lines_.begin(); it != lines_.end();) {
    std::deque<SequencePtr>& line = it->second;
    const auto ended = std::remove_if(line.begin(), line.end(), [&](const SequencePtr& s) {
      if (s->ending) finish(*s);
      return s->ending.has_value();
    });
    size_ -= static_cast<int>(line.end() - ended);
    line.erase(ended, line.end());
    it = line.empty() ? lines_.erase(it) : std::next(it);
  }
}

TenantLines FairQueue::Lines() const {
  TenantLines lines;
  for (const auto& [tenant, line] : lines_) {
    lines.emplace(tenant, TenantLine{.requests = static_cast<int>(line.size()),
                                     .weight = line.front()->request.tenant.weight});
  }
  return lines;
}

void OrderByTurns(std::vector<SequencePtr>& running) {
  if (!std::is_sorted(running.begin(), running.end(), GoesBefore))
    std::sort(running.begin(), running.end(), GoesBefore);
  struct Line {
    int taken = 0;
    int weight = 1;  // the same for all sequences of a tenant, or their order would change
  };
  std::map<int, Line> lines;
  for (const SequencePtr& s : running) {
    const Tenant& tenant = s->request.tenant;
    Line& line = lines.try_emplace(tenant.id, Line{.weight = tenant.weight}).first->second;
    NUMOE_DCHECK_GE(line.weight, 1) << "tenant " << tenant.id;
    s->turn = static_cast<double>(line.taken++) / line.weight;
  }
  if (lines.size() < 2) return;
  std::sort(running.begin(), running.end(), [](const SequencePtr& a, const SequencePtr& b) {
    return a->turn != b->turn ? a->turn < b->turn : a->id < b->id;
  });
}

}  // namespace numoe::engine
