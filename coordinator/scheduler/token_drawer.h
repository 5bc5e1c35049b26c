// TokenDrawer: from rows of logits to a sequence's next token and to the probabilities that it asked for.
//
// The one place where a sequence's sampling parameters, rules, allowed tokens and constraint meet the
// sampler. A constraint is asked once for every token that is drawn and told that token. Probabilities are
// those of the row as the model gave it. Errors fail the sequence: DATA_LOSS where a row is no numbers, the
// constraint's own, INTERNAL where no token may come. Holds only scratch; engine thread only.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/sampling/sampler.h"
#include "coordinator/scheduler/sequence.h"

namespace numoe {

struct DrawnToken {
  TokenId token = 0;
  std::vector<TokenLogprobs> logprobs;  // one if the sequence asked for them
};

class TokenDrawer {
 public:
  explicit TokenDrawer(int vocab) : vocab_(vocab), sampler_(vocab) {}

  /// The token after `tokens`, and tells rules and constraint of it. `logits`: the last token's row.
  absl::StatusOr<DrawnToken> Draw(Sequence& s, absl::Span<const float> logits);
  /// The next prompt token's probability. REQUIRES: s.unscored() > 0. `logits`: the row of the token before.
  absl::Status Score(Sequence& s, absl::Span<const float> logits) const;

 private:
  absl::StatusOr<absl::Span<const uint64_t>> AllowedTokens(Sequence& s);
  absl::Span<const float> Known(absl::Span<const float> logits) const;

  const int vocab_;
  Sampler sampler_;
  std::vector<uint64_t> both_;  // what constraint and allowed_token_ids allow
};

}  // namespace numoe
