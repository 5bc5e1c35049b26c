// StepLayout: a StepBatch flattened to arrays of plain numbers, the form that a device uploads once per step.
//
// Built by the model (coordinator/model/step_plan.h) from what the scheduler filled in; read by devices only.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "coordinator/sampling/sample_spec.h"

namespace numoe {

struct StepLayout {
  std::vector<TokenId> tokens;          // [tokens]
  std::vector<int32_t> positions;       // [tokens] position within its sequence
  std::vector<int32_t> sequences;       // [tokens] row of block_tables
  std::vector<KvBlockId> block_tables;  // [sequences, blocks_per_sequence_max], padded with -1
  int blocks_per_sequence_max = 0;
  std::vector<int32_t> logit_rows;  // tokens whose logits are wanted, ascending
  // [logit_rows]: how a token is to be drawn from the row; null: its logits are wanted on the host. Empty:
  // those of all rows are.
  std::vector<const SampleSpec*> samples;
  bool exact = false;        // no kernel choice may depend on the batch
  int deferred_experts = 0;  // of each token in each layer: the last of its routes arrive a layer later
};

}  // namespace numoe
