// Log-probabilities of tokens: log-softmax of a row of logits as the model computed it.
//
// They are for answers with probabilities: that of the chosen token, its rank, and those of the most likely
// tokens. They take a few vectorised passes over the row, without sorting it; any thread. The row contains
// the tokens that have a probability, that is the vocabulary without padding. NaN or infinity in it is
// DATA_LOSS.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe::execution {

/// The largest number of alternatives that a request may ask for; OpenAI's limit.
inline constexpr int kLogprobsMax = 20;

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

struct TokenLogprobs {
  TokenLogprob chosen;
  int rank = 1;                   // of the chosen token: 1 + the number of more likely tokens
  std::vector<TokenLogprob> top;  // the most likely tokens, best first; ties go to the lower id
};

/// Returns the log-probabilities of `chosen` and of the `top` most likely tokens. REQUIRES: `chosen` is in
/// the row; 0 <= top <= kLogprobsMax.
absl::StatusOr<TokenLogprobs> ReadLogprobs(absl::Span<const float> logits, TokenId chosen, int top);

}  // namespace numoe::execution
