#include "coordinator/scheduler/step_planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"

namespace numoe {
namespace {

int BlocksFor(int64_t tokens, int block_tokens) {
  return static_cast<int>((tokens + block_tokens - 1) / block_tokens);
}

// Prompt tokens of one step: what is left, cut at fixed boundaries where results must not depend on the load.
int ChunkOf(const SequenceView& s, int budget, const PlannerLimits& limits) {
  const int64_t uncached = s.tokens - s.cached;
  if (limits.fixed_chunk_tokens == 0 || uncached == 1)
    return static_cast<int>(std::min<int64_t>(uncached, budget));
  const int64_t to_boundary = limits.fixed_chunk_tokens - s.cached % limits.fixed_chunk_tokens;
  const int64_t chunk = std::min(uncached, to_boundary);
  return chunk <= budget ? static_cast<int>(chunk) : 0;  // a whole piece or nothing
}

class Planner {
 public:
  Planner(const std::vector<SequenceView>& running, int free_blocks, const PlannerLimits& limits)
      : running_(running),
        preempted_(running.size(), false),
        free_(free_blocks),
        budget_(limits.step_tokens),
        limits_(limits) {}

  StepPlan Run(const std::vector<SequenceView>& waiting) {
    // Decodes before prompts: a long prompt must not stop running streams.
    for (const bool decode : {true, false}) {
      for (size_t i = 0; i < running_.size(); ++i) {
        if (!preempted_[i] && (running_[i].tokens - running_[i].cached == 1) == decode)
          PlanRunning(static_cast<int>(i));
      }
      if (decode && !plan_.parts.empty()) budget_ = std::min(budget_, limits_.mixed_prompt_tokens);
    }
    if (plan_.preempted.empty()) Admit(waiting);
    // The oldest one cannot move although it fits the cache alone: what it lacks, younger ones share among
    // them.
    if (plan_.parts.empty()) {
      for (int i = static_cast<int>(running_.size()) - 1; i > 0; --i) {
        if (CanGive(i)) Preempt(i);
      }
    }
    return std::move(plan_);
  }

 private:
  void PlanRunning(int index) {
    const SequenceView& s = running_[index];
    const int tokens = ChunkOf(s, budget_, limits_);
    if (tokens == 0) return;
    const int needed = BlocksFor(s.cached + tokens, limits_.block_tokens) - s.blocks;
    if (needed > free_ + GivableAfter(index)) return;  // it waits for older ones to finish
    while (needed > free_) Preempt(YoungestAfter(index));
    Take(index, tokens, needed);
  }

  bool CanGive(int index) const {
    const bool planned = std::any_of(plan_.parts.begin(), plan_.parts.end(),
                                     [&](const PlannedPart& p) { return p.sequence == index; });
    return !preempted_[index] && !planned && running_[index].blocks > 0;
  }
  int GivableAfter(int index) const {
    int blocks = 0;
    for (int i = index + 1; i < static_cast<int>(running_.size()); ++i)
      blocks += CanGive(i) ? running_[i].blocks - running_[i].shared : 0;
    return blocks;
  }

  // The youngest sequence after `index` that has no part in this step yet: nobody gives way to a younger one.
  int YoungestAfter(int index) const {
    int youngest = static_cast<int>(running_.size()) - 1;
    while (youngest > index && !CanGive(youngest)) --youngest;
    NUMOE_CHECK_GT(youngest, index) << "GivableAfter counted somebody";
    return youngest;
  }

  void Preempt(int index) {
    preempted_[index] = true;
    free_ += running_[index].blocks - running_[index].shared;
    plan_.preempted.push_back(index);
  }

  void Take(int index, int tokens, int blocks) {
    plan_.parts.push_back({index, tokens});
    budget_ -= tokens;
    free_ -= blocks;
  }

  void Admit(const std::vector<SequenceView>& waiting) {
    int running = static_cast<int>(running_.size());
    for (const SequenceView& s : waiting) {
      if (running >= limits_.sequences_max || budget_ == 0) return;
      // Room for the whole prompt and one more block: admission that must preempt at once would only thrash.
      const int taken = s.blocks - s.idle;  // held by others already
      const int whole = BlocksFor(s.tokens + 1, limits_.block_tokens) - taken;
      const int tokens = ChunkOf(s, budget_, limits_);
      if (tokens == 0 || whole > free_ - Reserved()) return;
      const int now = BlocksFor(s.cached + tokens, limits_.block_tokens) - taken;
      Take(running, tokens, now);
      admitted_blocks_ += whole - now;
      ++plan_.admitted;
      ++running;
    }
  }

  // Blocks that running prompts will still need.
  int Reserved() const {
    int reserved = admitted_blocks_;
    for (size_t i = 0; i < running_.size(); ++i) {
      if (preempted_[i]) continue;
      const auto part = std::find_if(plan_.parts.begin(), plan_.parts.end(),
                                     [&](const PlannedPart& p) { return p.sequence == static_cast<int>(i); });
      const int64_t cached = running_[i].cached + (part == plan_.parts.end() ? 0 : part->tokens);
      const int owned = std::max(running_[i].blocks, BlocksFor(cached, limits_.block_tokens));
      reserved += std::max(0, BlocksFor(running_[i].tokens, limits_.block_tokens) - owned);
    }
    return reserved;
  }

  const std::vector<SequenceView>& running_;
  std::vector<bool> preempted_;
  int free_;
  int budget_;
  int admitted_blocks_ = 0;
  const PlannerLimits& limits_;
  StepPlan plan_;
};

}  // namespace

StepPlan PlanNextStep(const std::vector<SequenceView>& running, const std::vector<SequenceView>& waiting,
                      int free_blocks, const PlannerLimits& limits) {
  return Planner(running, free_blocks, limits).Run(waiting);
}

std::string StepPlan::ToString() const {
  std::string text = fmt::format("admit {}, preempt {}, parts", admitted, preempted.size());
  for (const PlannedPart& part : parts) text += fmt::format(" {}:{}", part.sequence, part.tokens);
  return text;
}

}  // namespace numoe
