// BatchFiller: from the parts of a step to the batch that the model is asked for.
//
// Of each part its tokens, where they lie in the cache, how many rows of logits somebody reads, and, where
// the model draws, by what. The batch points into the sequences and into this, until the next Fill. A
// constraint that cannot say what may come leaves drawing to the host, which meets its error after the step.
// Engine thread only.
#pragma once

#include <vector>

#include "coordinator/model/model.h"
#include "coordinator/scheduler/step_planner.h"
#include "coordinator/scheduler/token_drawer.h"

namespace numoe {

class BatchFiller {
 public:
  /// `drawer` outlives it. `deterministic`: every batch is marked so.
  BatchFiller(const TokenDrawer& drawer, bool deterministic);

  /// REQUIRES: the sequences have blocks for their parts.
  const StepBatch& Fill(const std::vector<PlannedPart>& parts, const std::vector<SequencePtr>& running,
                        bool model_draws);

 private:
  const SampleSpec* SampleFor(Sequence& s, int tokens);

  const TokenDrawer& drawer_;
  StepBatch batch_;
  std::vector<SampleSpec> samples_;  // of the batch, where the model draws
};

}  // namespace numoe
