// BatchFiller: from the parts of a step to the batch that the model is asked for.
//
// For each part the batch has its tokens, their blocks in the cache, how many rows of logits are read, and,
// where the model draws tokens, how. The batch points into the sequences and into this object until the next
// Fill. Where a constraint fails, the token is drawn on the host after the step, which reports the error.
// Engine thread only.
#pragma once

#include <vector>

#include "coordinator/engine/scheduler/step_planner.h"
#include "coordinator/engine/scheduler/token_drawer.h"
#include "coordinator/execution/model/model.h"

namespace numoe::engine {

class BatchFiller {
 public:
  /// `drawer` outlives it. `deterministic`: every batch is marked so.
  BatchFiller(const TokenDrawer& drawer, bool deterministic);

  /// REQUIRES: the sequences have blocks for their parts.
  const execution::StepBatch& Fill(const std::vector<PlannedPart>& parts,
                                   const std::vector<SequencePtr>& running, bool model_draws);

 private:
  const execution::SampleSpec* SampleFor(Sequence& s, int tokens);

  const TokenDrawer& drawer_;
  execution::StepBatch batch_;
  std::vector<execution::SampleSpec> samples_;  // of the batch, where the model draws
};

}  // namespace numoe::engine
