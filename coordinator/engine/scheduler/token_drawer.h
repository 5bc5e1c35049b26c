// TokenDrawer: from rows of logits, or from what a device drew, to a sequence's next token and to the
// probabilities that it asked for.
//
// The one place where a sequence's sampling parameters, rules, allowed tokens and constraint meet: as a
// SampleSpec before the step for a device that draws, in the sampler after it where the logits are on the
// host. A constraint is asked once for every token, whenever that is, and told the token. Probabilities are
// those of the row as the model gave it. Errors fail the sequence: DATA_LOSS where a row is no numbers, the
// constraint's own, INTERNAL where no token may come. Holds only scratch; engine thread only.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "coordinator/engine/scheduler/sequence.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/sampling/sample_spec.h"

namespace numoe::engine {

/// A row that the model was asked for: what was drawn from it, or its logits.
struct LogitRow {
  absl::Span<const float> logits = {};
  const absl::StatusOr<execution::DrawnToken>* drawn = nullptr;
};

/// The rows that a step was asked for, one after the other.
class StepRows {
 public:
  explicit StepRows(const execution::StepLogits& logits) : logits_(logits) {}

  size_t taken() const { return taken_; }
  LogitRow Next() {
    const size_t row = taken_++;
    if (row < logits_.drawn.size() && logits_.drawn[row]) return {.drawn = &*logits_.drawn[row]};
    const auto vocab = static_cast<size_t>(logits_.vocab_size);
    NUMOE_CHECK_LE((read_ + 1) * vocab, logits_.values.size()) << "row " << row;
    return {.logits = logits_.values.subspan(read_++ * vocab, vocab)};
  }
  void SkipTo(size_t row) {
    while (taken_ < row) Next();
  }

 private:
  const execution::StepLogits& logits_;
  size_t taken_ = 0;
  size_t read_ = 0;  // those of them that have logits
};

class TokenDrawer {
 public:
  explicit TokenDrawer(int vocab) : vocab_(vocab), sampler_(vocab) {}

  /// How the token after `tokens` is to be drawn; holds until it has been. The constraint's error.
  absl::StatusOr<execution::SampleSpec> SpecOf(Sequence& s) const;
  /// The token after `tokens`, and tells rules and constraint of it. `row`: the last token's.
  absl::StatusOr<execution::DrawnToken> Draw(Sequence& s, const LogitRow& row);
  /// The next prompt token's probability. REQUIRES: s.unscored() > 0. `logits`: the row of the token before.
  absl::Status Score(Sequence& s, absl::Span<const float> logits) const;
  /// What Score has found since they were last taken.
  static std::vector<execution::TokenLogprobs> TakeScores(Sequence& s) {
    return std::exchange(s.drawing.scores, {});
  }

 private:
  execution::SamplingChoice ChoiceOf(const Sequence& s, absl::Span<const uint64_t> allowed) const;
  absl::StatusOr<execution::DrawnToken> DrawOnHost(Sequence& s, absl::Span<const float> logits);
  absl::Span<const float> Known(absl::Span<const float> logits) const;

  const int vocab_;
  execution::Sampler sampler_;
};

}  // namespace numoe::engine
