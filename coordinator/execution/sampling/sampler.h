// Sampler: draws a token from a row of logits with temperature, top-k, top-p and min-p, in that order;
// temperature 0 is greedy.
//
// Random numbers are a function of (seed, position): the same request and seed draw the same numbers under
// any load, and a replayed step draws them again. Only as many of the best logits are sorted as a draw needs,
// not the whole vocabulary. A request's rules (logit_rules.h) and then a constraint's mask are applied before
// temperature: probabilities are those among the allowed tokens. A token that the mask does not allow is
// never drawn, whatever the rules say; if min_tokens forbids all tokens that the mask allows, min_tokens is
// ignored. The cost of a mask with few tokens depends on their number, not on the vocabulary. A row with NaN
// or infinity gives DATA_LOSS, never a token. It holds only scratch memory: use one Sampler per thread.
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
  int top_k = 0;  // 0 means off
  double min_p = 0.0;
  uint64_t seed = 0;
  int64_t position = 0;                // of the token to draw, in its sequence
  absl::Span<const uint64_t> allowed;  // one bit for each token (TokenConstraint); empty if all are allowed
  const LogitRules* rules = nullptr;   // null if there are none
};

/// Returns INTERNAL, the error if no token is allowed: by a mask, or by rules if there is no mask.
absl::Status NothingAllowed(bool masked);

class Sampler {
 public:
  /// Ids that are not below `vocab` (embedding rows that do not belong to a token) are never drawn.
  explicit Sampler(int vocab) : vocab_(vocab) {}

  /// Returns the drawn token; INTERNAL if the mask allows no token or the rules forbid all of them.
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
  std::vector<Candidate> candidates_;  // best first; the levels that were sorted so far
  int level_ = 0;                      // number of levels in candidates_
  std::vector<float> shaped_;     // logits after mask and rules: of all tokens, or of those in `allowed_`
  std::vector<TokenId> allowed_;  // the tokens of a mask with few tokens, ascending
};

/// Returns a number that is uniform in [0, 1), from a seed and a counter (SplitMix64,
/// https://doi.org/10.1145/2714064.2660195).
double CounterUniform(uint64_t seed, uint64_t counter);

}  // namespace numoe::execution
