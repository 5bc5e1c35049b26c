// Log-probabilities of tokens: log-softmax of a row of logits as the model gave it.
//
// For answers that tell how likely their tokens were: the chosen token's, its rank, and the most likely ones.
// A few vectorised passes over the row, none of which sorts it; any thread. The row holds the tokens that
// have a probability, that is the vocabulary without padding. NaN or infinity in it is DATA_LOSS.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe::execution {

/// Most alternatives that can be asked for; OpenAI's limit.
inline constexpr int kLogprobsMax = 20;

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

struct TokenLogprobs {
  TokenLogprob chosen;
  int rank = 1;                   // of the chosen one: 1 + how many are more likely
  std::vector<TokenLogprob> top;  // the most likely ones, best first; of equals the lower id comes first
};

/// REQUIRES: `chosen` is in the row; 0 <= top <= kLogprobsMax.
absl::StatusOr<TokenLogprobs> ReadLogprobs(absl::Span<const float> logits, TokenId chosen, int top);

}  // namespace numoe::execution
