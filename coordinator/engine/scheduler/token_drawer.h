// TokenDrawer: makes a sequence's next token, and the probabilities that it asked for, from a row of logits
// or from what a device has drawn.
//
// This is the only place that combines a sequence's sampling parameters, rules, allowed tokens and
// constraint. If the device draws, it combines them in a SampleSpec before the step; if the logits are on the
// host, in the sampler after the step. Either way it asks the constraint for a mask once for every token, and
// then reports the token to it. Probabilities are those of the row as the model computed it. Errors end the
// sequence: DATA_LOSS if a row is not finite, the constraint's own error, or INTERNAL if no token is allowed.
// It holds only scratch memory; engine thread only.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "coordinator/engine/scheduler/sequence.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/sampling/sample_spec.h"

namespace numoe::engine {

/// A row that was requested of the model: either the token drawn from it, or its logits.
struct LogitRow {
  absl::Span<const float> logits = {};
  const absl::StatusOr<execution::DrawnToken>* drawn = nullptr;
};

/// The rows that were requested of a step, one after another.
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
  size_t read_ = 0;  // how many of the taken rows have logits
};

class TokenDrawer {
 public:
  explicit TokenDrawer(int vocab) : vocab_(vocab), sampler_(vocab) {}

  /// Returns how the token after s.tokens is to be drawn, or the constraint's error. The result is valid
  /// until that token has been drawn.
  absl::StatusOr<execution::SampleSpec> SpecOf(Sequence& s) const;
  /// Draws the token after s.tokens and reports it to the rules and the constraint. `row` is the row of the
  /// last token.
  absl::StatusOr<execution::DrawnToken> Draw(Sequence& s, const LogitRow& row);
  /// Computes the probability of the next prompt token. `logits`: the row of the token before it. REQUIRES:
  /// s.unscored() > 0.
  absl::Status Score(Sequence& s, absl::Span<const float> logits) const;
  /// Returns the probabilities that Score has computed since the last call.
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
