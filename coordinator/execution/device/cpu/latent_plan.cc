#include "coordinator/execution/device/cpu/latent_plan.h"

namespace numoe::execution {
namespace {

// Shorter runs are never worth expanding, and use the absorbed form as decoding does.
constexpr int kExpandedTokensMin = 16;
// The most tokens that share one expansion of a sequence's keys and values; more would need more memory for
// scores.
constexpr int kExpandedTokensMax = 4096;

// The number of pairs of a token and a position that it attends to.
double Pairs(const StepLayout& layout, const TokenRun& run) {
  const double first = layout.positions[static_cast<size_t>(run.begin)] + 1;
  const double last = layout.positions[static_cast<size_t>(run.end - 1)] + 1;
  return (first + last) / 2 * run.tokens();
}

}  // namespace

double AbsorbedOperations(const StepLayout& layout, const TokenRun& run, const LatentShape& shape) {
  return 1.0 * run.tokens() * (shape.nope + shape.value) * shape.latent +
         Pairs(layout, run) * (2 * shape.latent + shape.rope);
}

double ExpandedOperations(const StepLayout& layout, const TokenRun& run, const LatentShape& shape) {
  const double positions = layout.positions[static_cast<size_t>(run.end - 1)] + 1;
  return positions * (shape.nope + shape.value) * shape.latent +
         Pairs(layout, run) * (shape.nope + shape.rope + shape.value);
}

LatentPlan PlanLatent(const StepLayout& layout, const LatentShape& shape) {
  std::vector<TokenRun> absorbed, expanded;
  LatentPlan plan;
  for (const TokenRun& run : FindRuns(layout)) {
    if (shape.may_expand && run.tokens() >= kExpandedTokensMin &&
        ExpandedOperations(layout, run, shape) < AbsorbedOperations(layout, run, shape)) {
      expanded.push_back(run);
      continue;
    }
    absorbed.push_back(run);
    std::vector<TokenRun>& tokens = plan.absorbed_tokens;
    if (!tokens.empty() && tokens.back().end == run.begin) {
      tokens.back().end = run.end;
    } else {
      tokens.push_back(run);
    }
  }
  plan.absorbed =
      PlanAttend(layout, absorbed, {.heads = shape.heads, .kv_heads = 1, .threads = shape.threads});
  // A head's expansion is the larger part of its task, so tasks are divided by heads alone where that
  // suffices.
  plan.expanded = PlanAttend(layout, expanded,
                             {.heads = shape.heads,
                              .kv_heads = shape.heads,
                              .threads = shape.threads,
                              .tasks_per_thread = 1,
                              .task_rows_max = kExpandedTokensMax});
  return plan;
}

}  // namespace numoe::execution
