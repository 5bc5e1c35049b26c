#include "coordinator/execution/model/step_plan.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::execution {

StepLayout PlanStep(const StepBatch& batch, const ModelOptions& options) {
  StepLayout layout;
  layout.exact = batch.deterministic;
  NUMOE_CHECK(!batch.sequences.empty()) << "a step without sequences";
  const bool single = std::all_of(batch.sequences.begin(), batch.sequences.end(),
                                  [](const StepSequence& sequence) { return sequence.tokens.size() == 1; });
  layout.deferred_experts = single || options.defer_always ? options.deferred_experts : 0;
  const bool draws = std::any_of(batch.sequences.begin(), batch.sequences.end(),
                                 [](const StepSequence& s) { return s.sample != nullptr; });
  for (const StepSequence& sequence : batch.sequences) {
    layout.blocks_per_sequence_max =
        std::max(layout.blocks_per_sequence_max, static_cast<int>(sequence.blocks.size()));
  }
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const StepSequence& sequence = batch.sequences[s];
    const int64_t count = static_cast<int64_t>(sequence.tokens.size());
    NUMOE_CHECK_GT(count, 0);
    NUMOE_CHECK_GE(static_cast<int64_t>(sequence.blocks.size()) * options.kv_block_tokens,
                   sequence.position + count);
    NUMOE_CHECK(sequence.logits_last >= 0 && sequence.logits_last <= count);
    NUMOE_CHECK(sequence.sample == nullptr || sequence.logits_last > 0) << "a token is drawn from logits";
    for (int64_t i = 0; i < count; ++i) {
      if (i >= count - sequence.logits_last) {
        layout.logit_rows.push_back(static_cast<int32_t>(layout.tokens.size()));
        if (draws) layout.samples.push_back(i == count - 1 ? sequence.sample : nullptr);
      }
      layout.tokens.push_back(sequence.tokens[i]);
      layout.positions.push_back(static_cast<int32_t>(sequence.position + i));
      layout.sequences.push_back(static_cast<int32_t>(s));
    }
    for (int b = 0; b < layout.blocks_per_sequence_max; ++b) {
      const bool owned = b < static_cast<int>(sequence.blocks.size());
      if (owned) NUMOE_CHECK(sequence.blocks[b] >= 0 && sequence.blocks[b] < options.kv_blocks);
      layout.block_tables.push_back(owned ? sequence.blocks[b] : -1);
    }
  }
  return layout;
}

}  // namespace numoe::execution
