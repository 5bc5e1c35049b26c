// BatchFiller: turns the parts of a planned step into the StepBatch for the model.
//
// For each part the batch contains its tokens, the sequence's block table, how many rows of logits are read
// and, if the model draws tokens, a SampleSpec. The batch points into the sequences and into this object
// until the next call of Fill. If a constraint fails, the part gets no SampleSpec: the token is then drawn on
// the host after the step, which reports the error. Engine thread only.
#pragma once

#include <vector>

#include "coordinator/engine/scheduler/step_planner.h"
#include "coordinator/engine/scheduler/token_drawer.h"
#include "coordinator/execution/model/model.h"

namespace numoe::engine {

class BatchFiller {
 public:
  /// `drawer` must outlive it. `deterministic` is copied into every batch.
  BatchFiller(const TokenDrawer& drawer, bool deterministic);

  /// Returns the batch of these parts. REQUIRES: the sequences have blocks for their parts.
  const execution::StepBatch& Fill(const std::vector<PlannedPart>& parts,
                                   const std::vector<SequencePtr>& running, bool model_draws);

 private:
  const execution::SampleSpec* SampleFor(Sequence& s, int tokens);

  const TokenDrawer& drawer_;
  execution::StepBatch batch_;
  std::vector<execution::SampleSpec> samples_;  // of the batch, if the model draws
};

}  // namespace numoe::engine
