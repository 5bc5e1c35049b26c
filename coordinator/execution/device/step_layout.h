// StepLayout: a StepBatch flattened to arrays of plain numbers, the form that a device uploads once per step.
//
// Built by the model (coordinator/execution/model/step_plan.h) from what the scheduler filled in; read by
// devices only. A step may be cut in two halves, of which a device computes one while the workers have the
// other (coordinator/execution/model/decoder.h): the cut is a row, so no token is in both, and as a
// sequence's tokens lie by position, those of the first half are earlier ones.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "common/base/ids.h"
#include "coordinator/execution/sampling/sample_spec.h"

namespace numoe::execution {

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
  int second_half = 0;       // first row of the second half; 0: the step is whole

  int rows() const { return static_cast<int>(tokens.size()); }
};

/// Tokens [begin, end) of a step, without padding.
struct RowRange {
  int begin = 0;
  int end = 0;
  int rows() const { return end - begin; }
};

/// Some rows as a step of their own, with all block tables and without logits: row r is row begin + r.
inline StepLayout SliceRows(const StepLayout& layout, const RowRange& range) {
  const auto slice = [&](const auto& values) {
    return std::decay_t<decltype(values)>(values.begin() + range.begin, values.begin() + range.end);
  };
  return {.tokens = slice(layout.tokens),
          .positions = slice(layout.positions),
          .sequences = slice(layout.sequences),
          .block_tables = layout.block_tables,
          .blocks_per_sequence_max = layout.blocks_per_sequence_max,
          .logit_rows = {},
          .samples = {},
          .exact = layout.exact,
          .deferred_experts = layout.deferred_experts};
}

}  // namespace numoe::execution
