#include "coordinator/engine/scheduler/step_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/check.h"

namespace numoe::engine {
namespace {

int BlocksFor(int64_t tokens, int block_tokens) {
  NUMOE_DCHECK(tokens >= 0 && block_tokens > 0);
  return static_cast<int>((tokens + block_tokens - 1) / block_tokens);
}

class Planner {
 public:
  Planner(const std::vector<SequenceView>& running, const WaitingLines& waiting, int free_blocks,
          const PlannerLimits& limits, const FairShares& shares)
      : running_(running),
        waiting_(waiting),
        shares_(shares),
        planned_(running.size(), 0),
        free_(free_blocks),
        budget_(limits.step_tokens),
        logit_rows_(limits.prompt_logit_rows),
        limits_(limits) {}

  StepPlan Run() {
    // Decodes before prompts: a long prompt must not stop running streams.
    for (int i = 0; i < Running(); ++i) {
      if (planned_[i] != kPreempted && IsDecode(running_[i]))
        PlanRunning(i, ChunkOf(running_[i], 0, budget_));
    }
    if (!plan_.parts.empty()) budget_ = std::min(budget_, limits_.mixed_prompt_tokens);
    // The free blocks beyond those that running sequences will need. If it is negative, no sequence is
    // admitted. Otherwise no running prompt lacks a block, however the step is shared.
    room_ = free_ - Reserved();
    closed_ = !plan_.preempted.empty();
    SharePrompts();
    PlanPrompts();
    // The first sequence has no part, although it would fit the cache alone: later ones hold what it lacks,
    // possibly in shared blocks, so all of them are preempted.
    if (plan_.parts.empty()) {
      for (int i = Running() - 1; i > 0; --i) {
        if (CanPreempt(i)) Preempt(i);
      }
    }
    NUMOE_CHECK(budget_ >= 0 && free_ >= 0) << plan_.ToString();
    NUMOE_DCHECK(std::is_sorted(plan_.preempted.rbegin(), plan_.preempted.rend()));
    NUMOE_DCHECK(plan_.preempted.empty() || plan_.admitted.empty());
    return std::move(plan_);
  }

 private:
  static constexpr int kPreempted = -1;

  // A prompt that may get tokens of this step: of a running sequence, or of one that is admitted.
  struct Prompt {
    int sequence = 0;  // index in `running`, after admission
    SequenceView view;
    int tokens = 0;
  };
  // A tenant's prompts in order: running ones, then admitted ones.
  struct Line {
    std::vector<size_t> prompts;  // in prompts_
    size_t next = 0;              // the first that may get more
    int waiting = 0;
    int admitted = 0;  // of the waiting ones
    int running = 0;
    bool closed = false;  // no more of this line are admitted
  };

  int Running() const { return static_cast<int>(running_.size()); }
  static bool IsDecode(const SequenceView& s) { return s.tokens - s.cached == 1; }

  // Returns how many tokens the sequence can get in addition to the `given` ones: at most `most`, and at most
  // what is left of the step. If results must not depend on the load, it ends at fixed boundaries.
  int ChunkOf(const SequenceView& s, int given, int most) const {
    const int64_t uncached = s.tokens - s.cached;
    const int left = s.prompt_logits && uncached > 1 ? std::min(budget_, std::max(0, logit_rows_)) : budget_;
    if (limits_.fixed_chunk_tokens == 0 || uncached == 1)
      return static_cast<int>(std::min<int64_t>({uncached - given, left, most}));
    if (given > 0) return 0;
    const int64_t to_boundary = limits_.fixed_chunk_tokens - s.cached % limits_.fixed_chunk_tokens;
    const int64_t chunk = std::min(uncached, to_boundary);
    return chunk <= left ? static_cast<int>(chunk) : 0;  // a whole chunk or nothing
  }

  // Returns whether the step has tokens left for the sequence but no rows of logits. Other sequences may not
  // need such rows.
  bool RowsAreSpent(SequenceView s) const {
    if (!s.prompt_logits || ChunkOf(s, 0, budget_) > 0) return false;
    s.prompt_logits = false;
    return ChunkOf(s, 0, budget_) > 0;
  }

  void Spend(const SequenceView& s, int tokens) {
    budget_ -= tokens;
    if (s.prompt_logits) logit_rows_ -= tokens;
  }

  // Divides the rest of the step among tenants, and admits sequences for their tokens.
  void SharePrompts() {
    std::map<int, Line> lines;
    for (int i = 0; i < Running(); ++i) {
      if (planned_[i] == kPreempted || IsDecode(running_[i])) continue;
      lines[running_[i].tenant].prompts.push_back(prompts_.size());
      prompts_.push_back({i, running_[i]});
    }
    for (const auto& [tenant, line] : waiting_.lines) lines[tenant].waiting = line.requests;
    for (int i = 0; i < Running(); ++i) {
      const auto line = lines.find(running_[i].tenant);
      if (line != lines.end() && planned_[i] != kPreempted) ++line->second.running;
    }
    for (const auto& [tenant, line] : lines) without_any_ += line.waiting > 0 && line.running == 0 ? 1 : 0;
    std::set<std::pair<int64_t, int>> turns;  // (round, tenant)
    for (const auto& [tenant, line] : lines) turns.emplace(shares_.Round(tenant), tenant);
    while (budget_ > 0 && !turns.empty()) {
      const int tenant = turns.begin()->second;
      turns.erase(turns.begin());
      const int64_t most =
          turns.empty() ? budget_ : std::min<int64_t>(budget_, shares_.RemainingQuantum(tenant));
      const int tokens = GiveNext(tenant, lines[tenant], static_cast<int>(most));
      NUMOE_DCHECK(tokens >= 0 && budget_ >= 0);
      if (tokens == 0) continue;  // the tenant cannot use more tokens in this step
      shares_.Charge(tenant, shares_.Weight(tenant), tokens);
      turns.emplace(shares_.Round(tenant), tenant);
    }
  }

  // Gives tokens to the tenant's next prompt and returns how many; 0 if no prompt can use any.
  int GiveNext(int tenant, Line& line, int most) {
    for (;; ++line.next) {
      if (line.next == line.prompts.size() && !AdmitNext(tenant, line)) return 0;
      Prompt& prompt = prompts_[line.prompts[line.next]];
      const int tokens = ChunkOf(prompt.view, prompt.tokens, most);
      if (tokens == 0) continue;
      prompt.tokens += tokens;
      Spend(prompt.view, tokens);
      return tokens;
    }
  }

  // Admits the next sequence of the tenant's line; returns false if that is not possible. If it does not fit
  // into the cache, no sequence of any tenant is admitted, because smaller ones would take the room again and
  // again. The last slots are for tenants without a running sequence.
  bool AdmitNext(int tenant, Line& line) {
    if (closed_ || line.closed || line.admitted == line.waiting) return false;
    const int sequence = Running() + static_cast<int>(plan_.admitted.size());
    closed_ = sequence >= limits_.sequences_max;
    if (closed_) return false;
    line.closed = line.running > 0 && limits_.sequences_max - sequence <= without_any_ + waiting_.kept;
    if (line.closed) return false;
    const SequenceView s = waiting_.view(tenant, line.admitted);
    NUMOE_DCHECK(s.cached < s.tokens && 0 <= s.idle && s.idle <= s.blocks);
    line.closed = RowsAreSpent(s);
    if (line.closed) return false;
    // Require room for the whole prompt and its first token: admissions that lead to preemption would only
    // thrash.
    const int whole = BlocksFor(s.tokens + 1, limits_.block_tokens) - HeldByOthers(s);
    closed_ = ChunkOf(s, 0, budget_) == 0 || whole > room_;
    if (closed_) return false;
    room_ -= whole;
    ++line.admitted;
    if (line.running++ == 0) --without_any_;
    plan_.admitted.push_back(tenant);
    line.prompts.push_back(prompts_.size());
    prompts_.push_back({sequence, s});
    return true;
  }

  // Plans the prompts' parts, in order, with blocks for their tokens.
  void PlanPrompts() {
    freeable_.clear();
    for (const Prompt& prompt : prompts_) {
      if (prompt.tokens == 0) continue;
      if (prompt.sequence >= Running()) {
        const int64_t rows = prompt.view.cached + prompt.tokens;
        Take(prompt.sequence, prompt.tokens,
             BlocksFor(rows, limits_.block_tokens) - HeldByOthers(prompt.view));
        continue;
      }
      Spend(prompt.view, -prompt.tokens);
      if (planned_[prompt.sequence] != kPreempted) PlanRunning(prompt.sequence, prompt.tokens);
    }
    freeable_.clear();
    // If blocks were short, prompts that got no tokens by the shares get those that others could not use.
    for (const Prompt& prompt : prompts_) {
      if (prompt.sequence < Running() && planned_[prompt.sequence] == 0)
        PlanRunning(prompt.sequence, ChunkOf(prompt.view, 0, budget_));
    }
  }

  void PlanRunning(int index, int tokens) {
    NUMOE_DCHECK_EQ(planned_[index], 0);
    if (tokens == 0) return;
    const SequenceView& s = running_[index];
    // The sequence may hold more blocks than it needs, from a lost step that had more tokens of it.
    const int needed = std::max(0, BlocksFor(s.cached + tokens, limits_.block_tokens) - s.blocks);
    if (needed > free_ && needed > free_ + FreeableAfter(index)) return;  // until others finish
    while (needed > free_) Preempt(LastAfter(index));
    Spend(s, tokens);
    Take(index, tokens, needed);
    planned_[index] = tokens;
  }

  bool CanPreempt(int index) const { return planned_[index] == 0 && running_[index].blocks > 0; }
  int FreedBy(int index) const { return running_[index].blocks - running_[index].shared; }
  static int HeldByOthers(const SequenceView& s) { return s.blocks - s.idle; }

  // Returns how many blocks would be freed by preempting all sequences after `index` that have no part in
  // this step yet. It is computed once for each pass, because a pass plans by ascending index and preempts
  // from the end.
  int FreeableAfter(int index) {
    if (freeable_.empty()) {
      freeable_.assign(running_.size() + 1, 0);
      for (int i = Running() - 1; i >= 0; --i)
        freeable_[i] = freeable_[i + 1] + (CanPreempt(i) ? FreedBy(i) : 0);
      last_ = Running() - 1;
      freed_ = 0;
    }
    return freeable_[index + 1] - freed_;
  }

  // Returns the last sequence without a part in this step: a sequence is preempted only for an earlier one.
  int LastAfter(int index) {
    while (last_ > index && !CanPreempt(last_)) --last_;
    NUMOE_CHECK_GT(last_, index) << "FreeableAfter counted a sequence";
    freed_ += FreedBy(last_);
    return last_;
  }

  void Preempt(int index) {
    NUMOE_DCHECK(index > 0 && planned_[index] == 0) << "the first sequence is never preempted";
    planned_[index] = kPreempted;
    free_ += FreedBy(index);
    plan_.preempted.push_back(index);
  }

  void Take(int sequence, int tokens, int blocks) {
    NUMOE_CHECK(tokens > 0 && blocks >= 0) << sequence << " " << tokens << " " << blocks;
    plan_.parts.push_back({sequence, tokens});
    free_ -= blocks;
  }

  // Returns the blocks that running sequences will still need: for their prompts and for growth_tokens.
  int Reserved() const {
    int reserved = 0;
    for (int i = 0; i < Running(); ++i) {
      if (planned_[i] == kPreempted) continue;
      const int owned =
          std::max(running_[i].blocks, BlocksFor(running_[i].cached + planned_[i], limits_.block_tokens));
      const int64_t soon = std::min(running_[i].tokens + limits_.growth_tokens, running_[i].tokens_max);
      reserved += std::max(0, BlocksFor(soon, limits_.block_tokens) - owned);
    }
    return reserved;
  }

  const std::vector<SequenceView>& running_;
  const WaitingLines& waiting_;
  FairShares shares_;            // charged as if the step had been computed
  std::vector<int> planned_;     // [running] tokens in this step, or kPreempted
  std::vector<int> freeable_;    // [running + 1] of one pass; empty until it is computed
  std::vector<Prompt> prompts_;  // of running sequences by ascending index, then of admitted ones
  int last_ = 0;                 // in a pass: no sequence after this one can be preempted
  int freed_ = 0;                // in a pass: blocks freed since freeable_ was computed
  int free_;
  int room_ = 0;         // blocks for sequences to admit
  bool closed_ = false;  // no more sequences are admitted
  int without_any_ = 0;  // waiting tenants without a running sequence
  int budget_;
  int logit_rows_;
  const PlannerLimits& limits_;
  StepPlan plan_;
};

}  // namespace

StepPlan PlanNextStep(const std::vector<SequenceView>& running, const WaitingLines& waiting, int free_blocks,
                      const PlannerLimits& limits, const FairShares& shares) {
  NUMOE_CHECK(limits.step_tokens > 0 && limits.block_tokens > 0 && limits.sequences_max > 0);
  NUMOE_CHECK(free_blocks >= 0 && waiting.kept >= 0);
  return Planner(running, waiting, free_blocks, limits, shares).Run();
}

std::string StepPlan::ToString() const {
  std::string text = fmt::format("admit {}, preempt {}, parts", admitted.size(), preempted.size());
  for (const PlannedPart& part : parts) text += fmt::format(" {}:{}", part.sequence, part.tokens);
  return text;
}

}  // namespace numoe::engine
