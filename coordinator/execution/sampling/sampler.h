// From a row of logits to a token: temperature, top-k, top-p, min-p, in that order; temperature 0 is greedy.
//
// Random numbers are a function of (seed, position): the same request and seed draw the same numbers under
// any load, and a replayed step draws them again. A vocabulary is not sorted, but only as much of its best
// end as a draw looks at. A request's rules (logit_rules.h) and then a constraint's mask come before all of
// them: probabilities are those among the allowed tokens. What the mask has not is never drawn, whatever the
// rules say; where rules forbid all that the mask has, they give way. What a mask with few tokens costs
// hangs on them, not on the vocabulary. A row with NaN or infinity is DATA_LOSS, never a token. Holds only
// scratch: one Sampler per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "coordinator/execution/sampling/logit_rules.h"

namespace numoe::execution {

struct SamplingChoice {
  double temperature = 1.0;
  double top_p = 1.0;
  int top_k = 0;  // 0: off
  double min_p = 0.0;
  uint64_t seed = 0;
  int64_t position = 0;                // of the token to draw, in its sequence
  absl::Span<const uint64_t> allowed;  // one bit for each token (TokenConstraint); empty: all
  const LogitRules* rules = nullptr;   // null: none
};

/// INTERNAL: nothing may come of a mask, or without one because of rules.
absl::Status NothingAllowed(bool masked);

class Sampler {
 public:
  /// Ids from `vocab` on (embedding rows that no tokeniser token has) are never drawn.
  explicit Sampler(int vocab) : vocab_(vocab) {}

  /// INTERNAL: a mask that allows no token, or rules that forbid all.
  absl::StatusOr<TokenId> Sample(absl::Span<const float> logits, const SamplingChoice& choice);

 private:
  struct Candidate {
    float logit;
    float weight;
    TokenId token;
  };
  absl::StatusOr<TokenId> SampleAmong(absl::Span<const float> logits, const SamplingChoice& choice);
  absl::StatusOr<TokenId> SampleAllowed(absl::Span<const float> logits, const SamplingChoice& choice,
                                        bool forbid);
  absl::StatusOr<TokenId> SampleOfFew(absl::Span<const float> logits, const SamplingChoice& choice,
                                      bool forbid);
  absl::StatusOr<TokenId> SampleOfMany(absl::Span<const float> logits, const SamplingChoice& choice,
                                       bool forbid);
  double Weigh(absl::Span<const float> logits, float best, double temperature);
  bool SortNextLevel(absl::Span<const float> logits, float best, double temperature);

  const int vocab_;
  std::vector<float> weights_;         // [logits] exp((logit - best) / temperature)
  std::vector<Candidate> candidates_;  // best first, as far as anybody asked
  int level_ = 0;                      // levels that are among them
  std::vector<float> shaped_;          // what mask and rules made of [logits], or of those of `allowed_`
  std::vector<TokenId> allowed_;       // of a mask that has few, ascending
};

/// Uniform in [0, 1) from a seed and a counter (SplitMix64, https://doi.org/10.1145/2714064.2660195).
double CounterUniform(uint64_t seed, uint64_t counter);

}  // namespace numoe::execution
