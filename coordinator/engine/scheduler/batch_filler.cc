#include "coordinator/engine/scheduler/batch_filler.h"

#include "common/base/check.h"

namespace numoe::engine {

BatchFiller::BatchFiller(const TokenDrawer& drawer, bool deterministic) : drawer_(drawer) {
  batch_.deterministic = deterministic;
}

const execution::StepBatch& BatchFiller::Fill(const std::vector<PlannedPart>& parts,
                                              const std::vector<SequencePtr>& running, bool model_draws) {
  batch_.sequences.clear();
  samples_.clear();
  if (model_draws) samples_.reserve(parts.size());
  for (const PlannedPart& part : parts) {
    Sequence& s = *running[static_cast<size_t>(part.sequence)];
    const auto tokens = absl::MakeConstSpan(s.tokens).subspan(static_cast<size_t>(s.kv.cached),
                                                              static_cast<size_t>(part.tokens));
    batch_.sequences.push_back({.tokens = tokens,
                                .position = s.kv.cached,
                                .blocks = s.kv.blocks,
                                .logits_last = s.LogitRows(part.tokens),
                                .sample = model_draws ? SampleFor(s, part.tokens) : nullptr});
  }
  return batch_;
}

const execution::SampleSpec* BatchFiller::SampleFor(Sequence& s, int tokens) {
  if (s.kv.cached + tokens < static_cast<int64_t>(s.tokens.size()) || s.only_prompt()) return nullptr;
  const absl::StatusOr<execution::SampleSpec> spec = drawer_.SpecOf(s);
  if (!spec.ok()) return nullptr;
  NUMOE_CHECK_LT(samples_.size(), samples_.capacity());
  samples_.push_back(*spec);  // never reallocates, because the batch points into it
  return &samples_.back();
}

}  // namespace numoe::engine
