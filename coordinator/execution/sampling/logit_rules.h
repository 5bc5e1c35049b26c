// LogitRules: what a request changes about the logits before a token is drawn: biases, penalties for what was
// said already, and tokens that may not come yet.
//
// In vLLM's order: bias, repetition penalty (positive logits divided, others multiplied), then OpenAI's
// frequency penalty (times the count) and presence penalty, these two over generated tokens only. Each
// distinct token of the sequence is visited once, from counts that are kept as tokens come. A forbidden token
// never comes back: what is forbidden is decided last. One for each sequence that needs any; not thread-safe.
#pragma once

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "coordinator/execution/sampling/token_rule.h"

namespace numoe::execution {

/// The logit of a token that cannot be drawn.
inline constexpr float kForbiddenLogit = std::numeric_limits<float>::lowest();

struct LogitRuleParams {
  double frequency_penalty = 0;
  double presence_penalty = 0;
  double repetition_penalty = 1;                // over prompt and output
  std::vector<std::pair<TokenId, float>> bias;  // of ids in the vocabulary
  int min_tokens = 0;
  std::vector<TokenId> late;  // cannot be drawn before min_tokens
};

/// As Apply uses them.
struct LogitPenalties {
  float repetition = 1;  // 1e-30 to 1e30
  float frequency = 0;
  float presence = 0;
};

class LogitRules {
 public:
  /// `vocab`: ids from there on are not looked at.
  LogitRules(LogitRuleParams params, absl::Span<const TokenId> prompt, int vocab);

  /// Changes nothing: a sequence does better without.
  static bool IsNothing(const LogitRuleParams& params);

  /// One more token was generated.
  void Count(TokenId token);
  /// Some tokens may not come yet.
  bool Forbids() const { return generated_ < params_.min_tokens && !params_.late.empty(); }
  /// Changes a row [vocab]; `forbid`: gives those tokens kForbiddenLogit. NaN stays NaN.
  void Apply(absl::Span<float> logits, bool forbid) const;
  /// The same where a row has some tokens only: null for the others, which nothing changes.
  void Apply(absl::FunctionRef<float*(TokenId token)> logit_of, bool forbid) const;

  /// Apply as a list, for those who do it elsewhere: each token once. None where a token has several biases.
  std::optional<absl::Span<const TokenRule>> List() const;
  const LogitPenalties& penalties() const { return penalties_; }

 private:
  TokenRule& RuleOf(TokenId token);

  const LogitRuleParams params_;
  const TokenId vocab_;
  const bool penalises_;
  const LogitPenalties penalties_;
  int generated_ = 0;
  bool repeats_bias_ = false;     // of one token
  std::vector<TokenRule> rules_;  // each token once
  absl::flat_hash_map<TokenId, size_t> places_;
};

}  // namespace numoe::execution
