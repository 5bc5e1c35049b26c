// Plans which sequences of a step attend in absorbed and which in expanded form, for multi-head latent
// attention: pure functions, whose plan CpuLatentAttention executes.
//
// In absorbed form, each query is multiplied by W_UK and attention runs over the latents themselves, which
// all heads share: many operations per query and position, but none per position alone. That suits decoding.
// In expanded form, each head's keys and values are first computed from the latents of a sequence's
// positions: a third of the operations per query and position, but in addition heads * (nope + value) *
// latent per position, however few queries there are. That suits prompts. The form with fewer operations is
// used.
#pragma once

#include <vector>

#include "coordinator/execution/device/cpu/attend_plan.h"
#include "coordinator/execution/device/step_layout.h"

namespace numoe::execution {

struct LatentShape {
  int heads = 0;
  int nope = 0;    // channels of a query head that are multiplied by W_UK c
  int rope = 0;    // channels of a query head that are multiplied by the shared rotated key
  int value = 0;   // channels of a head's value
  int latent = 0;  // channels of c
  int threads = 1;
  bool may_expand = true;  // false: always absorbed, so that a token's bits do not depend on its step
};

struct LatentPlan {
  std::vector<TokenRun> absorbed_tokens;  // adjacent runs are merged
  AttendPlan absorbed;
  AttendPlan expanded;
};

/// Return the number of multiplications of one head for a run's tokens, in each form.
double AbsorbedOperations(const StepLayout& layout, const TokenRun& run, const LatentShape& shape);
double ExpandedOperations(const StepLayout& layout, const TokenRun& run, const LatentShape& shape);

LatentPlan PlanLatent(const StepLayout& layout, const LatentShape& shape);

}  // namespace numoe::execution
