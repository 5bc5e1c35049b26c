// StepLayout: a StepBatch flattened to arrays of plain numbers, the form that a device uploads once per step.
//
// The model (coordinator/execution/model/step_plan.h) builds it from the scheduler's StepBatch; only devices
// read it. A step may be divided into two halves, so that the device computes one while the workers compute
// the experts of the other (coordinator/execution/model/decoder.h). The division is between two rows, so no
// token is in both halves; since a sequence's tokens are ordered by position, its tokens in the first half
// are the earlier ones.
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
  std::vector<int32_t> logit_rows;  // tokens whose logits are needed, ascending
  // [logit_rows]: how a token is drawn from the row, or null if the host needs the row's logits. If the
  // vector is empty, the host needs the logits of all rows.
  std::vector<const SampleSpec*> samples;
  bool exact = false;        // no kernel choice may depend on the batch
  int deferred_experts = 0;  // per token and layer: the sums of its last routes are added one MoE layer later
  int second_half = 0;       // first row of the second half; 0 if the step is not divided

  int rows() const { return static_cast<int>(tokens.size()); }
};

/// Tokens [begin, end) of a step, without padding.
struct RowRange {
  int begin = 0;
  int end = 0;
  int rows() const { return end - begin; }
};

/// Returns the rows of a range as a separate step, whose row r is row begin + r, with all block tables and
/// without logits.
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
