#include "coordinator/device/cpu/attend_plan.h"

#include <algorithm>

#include "common/base/check.h"
#include "fmt/format.h"

namespace numoe {
namespace {

// Tasks for each thread, so that uneven ones balance.
constexpr int kTasksPerThread = 4;
// Rows of a task at most: packing a part then costs a few percent of multiplying it.
constexpr int kTaskRowsMax = 256;
// Heads of a task at least, where a cache head is shared by more than there are tasks for.
constexpr int kTaskHeadsMin = 16;
// What packing a part costs, in rows multiplied with it.
constexpr int kPackingRows = 8;

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

// The tokens of one sequence in the step.
struct Run {
  int begin = 0;
  int end = 0;
  int parts = 0;
  int tokens() const { return end - begin; }
};

int PartsOf(const StepLayout& layout, int token) {
  return CeilDiv(layout.positions[static_cast<size_t>(token)] + 1, kPartKeys);
}

std::vector<Run> FindRuns(const StepLayout& layout) {
  std::vector<Run> runs;
  const int tokens = static_cast<int>(layout.tokens.size());
  for (int t = 0; t < tokens; ++t) {
    const size_t at = static_cast<size_t>(t);
    if (t == 0 || layout.sequences[at] != layout.sequences[at - 1]) runs.push_back({.begin = t});
    runs.back().end = t + 1;
    runs.back().parts = PartsOf(layout, t);
  }
  return runs;
}

int CountBlocks(const std::vector<Run>& runs, int block_tokens) {
  int blocks = 0;
  for (const Run& run : runs) blocks += CeilDiv(run.tokens(), block_tokens);
  return blocks;
}

int64_t Cost(const StepLayout& layout, const AttendTask& task) {
  const int context = layout.positions[static_cast<size_t>(task.token_end - 1)] + 1;
  const int keys = std::min(context, task.part_end * kPartKeys) - task.part_begin * kPartKeys;
  return int64_t{keys} * (task.rows() + kPackingRows);
}

}  // namespace

AttendPlan PlanAttend(const StepLayout& layout, const AttendShape& shape) {
  NUMOE_CHECK_EQ(shape.heads % shape.kv_heads, 0);
  const int group = shape.heads / shape.kv_heads;
  const int wanted = shape.threads * kTasksPerThread;
  const std::vector<Run> runs = FindRuns(layout);
  int block_tokens = std::max(1, kTaskRowsMax / group);
  while (block_tokens > 1 && block_tokens * group > kGroupRows &&
         CountBlocks(runs, block_tokens) * shape.kv_heads < wanted) {
    block_tokens /= 2;
  }
  const bool few = CountBlocks(runs, block_tokens) * shape.kv_heads < wanted;
  const auto scatters = [&](const Run& run) {
    return few && run.parts > 1 && run.tokens() * group <= kTaskRowsMax;
  };
  int units = 0;  // tasks, if none is cut by heads
  for (const Run& run : runs) {
    units += CeilDiv(run.tokens(), block_tokens) * shape.kv_heads * (scatters(run) ? run.parts : 1);
  }
  const int head_cuts = std::clamp(CeilDiv(wanted, units), 1, std::max(1, group / kTaskHeadsMin));
  const int task_heads = CeilDiv(group, head_cuts);

  AttendPlan plan;
  for (const Run& run : runs) {
    const bool scattered = scatters(run);
    for (int begin = run.begin; begin < run.end; begin += block_tokens) {
      const int end = std::min(begin + block_tokens, run.end);
      const int parts = PartsOf(layout, end - 1);
      const int step = scattered ? 1 : parts;
      for (int part = 0; part < parts; part += step) {
        for (int head = 0, head_end = 0; head < shape.heads; head = head_end) {
          const int kv_head = head / group;
          head_end = std::min(head + task_heads, (kv_head + 1) * group);
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

}  // namespace numoe
