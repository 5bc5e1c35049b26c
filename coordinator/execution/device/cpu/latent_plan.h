// Which sequences of a step attend in absorbed and which in expanded form, for multi-head latent attention:
// pure planning, obeyed by CpuLatentAttention.
//
// Absorbed, W_UK goes into each query and attention runs over the latents themselves, shared by all heads:
// many operations for each query and position, none for a position alone; decoding. Expanded, each head's
// keys and values are made from the latents of a sequence's positions first: a third of the operations for
// each query and position, but heads * (nope + value) * latent for every position, however few queries there
// are; prompts. Whichever is fewer operations is taken.
#pragma once

#include <vector>

#include "coordinator/execution/device/cpu/attend_plan.h"
#include "coordinator/execution/device/step_layout.h"

namespace numoe::execution {

struct LatentShape {
  int heads = 0;
  int nope = 0;    // channels of a query head that meet W_UK c
  int rope = 0;    // channels that meet the shared rotated key
  int value = 0;   // channels of a head's value
  int latent = 0;  // channels of c
  int threads = 1;
  bool may_expand = true;  // false: absorbed always, so that a token's bits do not hang on its step
};

struct LatentPlan {
  std::vector<TokenRun> absorbed_tokens;  // runs beside each other as one
  AttendPlan absorbed;
  AttendPlan expanded;
};

/// Multiplications of one head for a run's tokens, either way.
double AbsorbedOperations(const StepLayout& layout, const TokenRun& run, const LatentShape& shape);
double ExpandedOperations(const StepLayout& layout, const TokenRun& run, const LatentShape& shape);

LatentPlan PlanLatent(const StepLayout& layout, const LatentShape& shape);

}  // namespace numoe::execution
