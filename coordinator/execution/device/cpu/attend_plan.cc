#include "coordinator/execution/device/cpu/attend_plan.h"

#include <algorithm>

#include "common/base/check.h"
#include "fmt/format.h"

namespace numoe::execution {
namespace {

// The fewest heads of a task, if the heads that share a cache head are divided among tasks.
constexpr int kTaskHeadsMin = 16;
// The cost of packing a part, expressed in rows that are multiplied by it.
constexpr int kPackingRows = 8;

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

int PartsOf(const StepLayout& layout, int token) {
  return CeilDiv(layout.positions[static_cast<size_t>(token)] + 1, kPartKeys);
}

int CountBlocks(const std::vector<TokenRun>& runs, int block_tokens) {
  int blocks = 0;
  for (const TokenRun& run : runs) blocks += CeilDiv(run.tokens(), block_tokens);
  return blocks;
}

int64_t Cost(const StepLayout& layout, const AttendTask& task) {
  const int context = layout.positions[static_cast<size_t>(task.token_end - 1)] + 1;
  const int keys = std::min(context, task.part_end * kPartKeys) - task.part_begin * kPartKeys;
  return int64_t{keys} * (task.rows() + kPackingRows);
}

// The largest size of a task in each direction with which every thread still gets tasks.
struct Cuts {
  int block_tokens = 1;
  bool few = false;  // whether there are too few tasks for all threads unless parts are scattered
  int heads = 1;
};

// Whether a sequence's parts go to different tasks (are scattered). Long prompts are divided by tokens
// instead.
bool Scatters(const StepLayout& layout, const TokenRun& run, bool few, int group) {
  return few && PartsOf(layout, run.end - 1) > 1 && run.tokens() * group <= kTaskRowsMax;
}

Cuts PlanCuts(const StepLayout& layout, const std::vector<TokenRun>& runs, const AttendShape& shape) {
  const int group = shape.heads / shape.kv_heads;
  const int wanted = shape.threads * shape.tasks_per_thread;
  Cuts cuts{.block_tokens = std::max(1, shape.task_rows_max / group)};
  const auto tasks = [&] { return CountBlocks(runs, cuts.block_tokens) * shape.kv_heads; };
  while (cuts.block_tokens > 1 && cuts.block_tokens * group > kGroupRows && tasks() < wanted)
    cuts.block_tokens /= 2;
  cuts.few = tasks() < wanted;
  int units = 0;  // tasks if heads are not divided; each has one part where parts are scattered
  for (const TokenRun& run : runs) {
    units += CeilDiv(run.tokens(), cuts.block_tokens) * shape.kv_heads *
             (Scatters(layout, run, cuts.few, group) ? PartsOf(layout, run.end - 1) : 1);
  }
  const int head_cuts = std::clamp(CeilDiv(wanted, units), 1, std::max(1, group / kTaskHeadsMin));
  cuts.heads = CeilDiv(group, head_cuts);
  return cuts;
}

}  // namespace

std::vector<TokenRun> FindRuns(const StepLayout& layout) {
  std::vector<TokenRun> runs;
  const int tokens = static_cast<int>(layout.tokens.size());
  for (int t = 0; t < tokens; ++t) {
    const size_t at = static_cast<size_t>(t);
    if (t == 0 || layout.sequences[at] != layout.sequences[at - 1]) runs.push_back({.begin = t});
    runs.back().end = t + 1;
  }
  return runs;
}

AttendPlan PlanAttend(const StepLayout& layout, const std::vector<TokenRun>& runs, const AttendShape& shape) {
  NUMOE_CHECK_EQ(shape.heads % shape.kv_heads, 0);
  AttendPlan plan;
  if (runs.empty()) return plan;
  const int group = shape.heads / shape.kv_heads;
  const Cuts cuts = PlanCuts(layout, runs, shape);
  for (const TokenRun& run : runs) {
    const bool scattered = Scatters(layout, run, cuts.few, group);
    for (int begin = run.begin; begin < run.end; begin += cuts.block_tokens) {
      const int end = std::min(begin + cuts.block_tokens, run.end);
      const int parts = PartsOf(layout, end - 1);
      const int step = scattered ? 1 : parts;
      for (int part = 0; part < parts; part += step) {
        for (int head = 0, head_end = 0; head < shape.heads; head = head_end) {
          const int kv_head = head / group;
          head_end = std::min(head + cuts.heads, (kv_head + 1) * group);
          plan.tasks.push_back({.token_begin = begin,
                                .token_end = end,
                                .kv_head = kv_head,
                                .head_begin = head,
                                .head_end = head_end,
                                .part_begin = part,
                                .part_end = part + step,
                                .scattered_parts = scattered ? parts : 0,
                                .scattered = plan.scattered_rows});
        }
      }
      if (!scattered) continue;
      for (int t = begin; t < end; ++t) {
        plan.joins.push_back({.token = t, .parts = parts, .scattered = plan.scattered_rows});
        plan.scattered_rows += int64_t{shape.heads} * parts;
      }
    }
  }
  std::stable_sort(plan.tasks.begin(), plan.tasks.end(), [&](const AttendTask& a, const AttendTask& b) {
    return Cost(layout, a) > Cost(layout, b);
  });
  return plan;
}

std::string Describe(const AttendPlan& plan) {
  std::string text;
  for (const AttendTask& t : plan.tasks) {
    text += fmt::format("tokens {}-{} heads {}-{} parts {}-{}{}\n", t.token_begin, t.token_end, t.head_begin,
                        t.head_end, t.part_begin, t.part_end, t.scattered_parts > 0 ? " scattered" : "");
  }
  return text + fmt::format("{} joins, {} scattered rows\n", plan.joins.size(), plan.scattered_rows);
}

}  // namespace numoe::execution
