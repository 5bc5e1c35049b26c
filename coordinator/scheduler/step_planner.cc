#include "coordinator/scheduler/step_planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"

namespace numoe {
namespace {

int BlocksFor(int64_t tokens, int block_tokens) {
  return static_cast<int>((tokens + block_tokens - 1) / block_tokens);
}

class Planner {
 public:
  Planner(const std::vector<SequenceView>& running, int free_blocks, const PlannerLimits& limits)
      : running_(running),
        planned_(running.size(), 0),
        free_(free_blocks),
        budget_(limits.step_tokens),
        logit_rows_(limits.prompt_logit_rows),
        limits_(limits) {}

  StepPlan Run(const WaitingLine& waiting) {
    // Decodes before prompts: a long prompt must not stop running streams.
    for (const bool decode : {true, false}) {
      givable_.clear();
      for (size_t i = 0; i < running_.size(); ++i) {
        if (planned_[i] != kPreempted && (running_[i].tokens - running_[i].cached == 1) == decode)
          PlanRunning(static_cast<int>(i));
      }
      if (decode && !plan_.parts.empty()) budget_ = std::min(budget_, limits_.mixed_prompt_tokens);
    }
    if (plan_.preempted.empty() && waiting.count > 0) Admit(waiting);
    // The first one cannot move although it fits the cache alone: what it lacks, later ones share among them.
    if (plan_.parts.empty()) {
      for (int i = static_cast<int>(running_.size()) - 1; i > 0; --i) {
        if (CanGive(i)) Preempt(i);
      }
    }
    return std::move(plan_);
  }

 private:
  static constexpr int kPreempted = -1;

  // Tokens of one step: what is left, cut at fixed boundaries where results must not depend on the load.
  int ChunkOf(const SequenceView& s) const {
    const int64_t uncached = s.tokens - s.cached;
    const int most = s.prompt_logits && uncached > 1 ? std::min(budget_, logit_rows_) : budget_;
    if (limits_.fixed_chunk_tokens == 0 || uncached == 1)
      return static_cast<int>(std::min<int64_t>(uncached, most));
    const int64_t to_boundary = limits_.fixed_chunk_tokens - s.cached % limits_.fixed_chunk_tokens;
    const int64_t chunk = std::min(uncached, to_boundary);
    return chunk <= most ? static_cast<int>(chunk) : 0;  // a whole piece or nothing
  }

  void PlanRunning(int index) {
    const SequenceView& s = running_[index];
    const int tokens = ChunkOf(s);
    if (tokens == 0) return;
    // It may hold more than it needs: a lost step's blocks, where the new plan gives it less.
    const int needed = std::max(0, BlocksFor(s.cached + tokens, limits_.block_tokens) - s.blocks);
    if (needed > free_ && needed > free_ + GivableAfter(index)) return;  // it waits for others to finish
    while (needed > free_) Preempt(LastAfter(index));
    Take(index, s, tokens, needed);
    planned_[index] = tokens;
  }

  bool CanGive(int index) const { return planned_[index] == 0 && running_[index].blocks > 0; }
  int Given(int index) const { return running_[index].blocks - running_[index].shared; }

  // What preempting everybody after `index` who has no part in this step yet would free. Counted once a pass,
  // in which parts are given out by rising index and preemption takes the last.
  int GivableAfter(int index) {
    if (givable_.empty()) {
      givable_.assign(running_.size() + 1, 0);
      for (int i = static_cast<int>(running_.size()) - 1; i >= 0; --i)
        givable_[i] = givable_[i + 1] + (CanGive(i) ? Given(i) : 0);
      last_ = static_cast<int>(running_.size()) - 1;
      given_ = 0;
    }
    return givable_[index + 1] - given_;
  }

  // The last sequence that has no part in this step yet: nobody gives way to a later one.
  int LastAfter(int index) {
    while (last_ > index && !CanGive(last_)) --last_;
    NUMOE_CHECK_GT(last_, index) << "GivableAfter counted somebody";
    given_ += Given(last_);
    return last_;
  }

  void Preempt(int index) {
    planned_[index] = kPreempted;
    free_ += Given(index);
    plan_.preempted.push_back(index);
  }

  void Take(int index, const SequenceView& s, int tokens, int blocks) {
    plan_.parts.push_back({index, tokens});
    budget_ -= tokens;
    if (s.prompt_logits) logit_rows_ = std::max(0, logit_rows_ - tokens);
    free_ -= blocks;
  }

  void Admit(const WaitingLine& waiting) {
    const int running = static_cast<int>(running_.size());
    int reserved = Reserved();
    for (int i = 0; i < waiting.count; ++i) {
      if (running + i >= limits_.sequences_max || budget_ == 0) return;
      const SequenceView s = waiting.view(i);
      // Room for the whole prompt and one more block: admission that must preempt at once would only thrash.
      const int taken = s.blocks - s.idle;  // held by others already
      const int whole = BlocksFor(s.tokens + 1, limits_.block_tokens) - taken;
      const int tokens = ChunkOf(s);
      if (tokens == 0 || whole > free_ - reserved) return;
      const int now = BlocksFor(s.cached + tokens, limits_.block_tokens) - taken;
      Take(running + i, s, tokens, now);
      reserved += whole - now;
      ++plan_.admitted;
    }
  }

  // Blocks that those who run will still need: for their prompts and for what they say next.
  int Reserved() const {
    int reserved = 0;
    for (size_t i = 0; i < running_.size(); ++i) {
      if (planned_[i] == kPreempted) continue;
      const int owned =
          std::max(running_[i].blocks, BlocksFor(running_[i].cached + planned_[i], limits_.block_tokens));
      const int64_t soon = std::min(running_[i].tokens + limits_.growth_tokens, running_[i].tokens_max);
      reserved += std::max(0, BlocksFor(soon, limits_.block_tokens) - owned);
    }
    return reserved;
  }

  const std::vector<SequenceView>& running_;
  std::vector<int> planned_;  // [running] tokens in this step, or kPreempted
  std::vector<int> givable_;  // [running + 1] of one pass; empty: not asked for yet
  int last_ = 0;              // of one pass: nobody after it can give
  int given_ = 0;             // of one pass: since givable_ was counted
  int free_;
  int budget_;
  int logit_rows_;
  const PlannerLimits& limits_;
  StepPlan plan_;
};

}  // namespace

StepPlan PlanNextStep(const std::vector<SequenceView>& running, const WaitingLine& waiting, int free_blocks,
                      const PlannerLimits& limits) {
  return Planner(running, free_blocks, limits).Run(waiting);
}

std::string StepPlan::ToString() const {
  std::string text = fmt::format("admit {}, preempt {}, parts", admitted, preempted.size());
  for (const PlannedPart& part : parts) text += fmt::format(" {}:{}", part.sequence, part.tokens);
  return text;
}

}  // namespace numoe
