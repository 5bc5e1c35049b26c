// LogitRules: changes that a request makes to the logits before a token is drawn: biases, penalties for
// tokens that occurred already, and tokens that are forbidden until the answer has min_tokens.
//
// They are applied in vLLM's order: bias, repetition penalty (positive logits are divided, others
// multiplied), then OpenAI's frequency penalty (times the count) and presence penalty, these two over
// generated tokens only. Each distinct token of the sequence is visited once, with counts that are updated
// for each generated token. Forbidden tokens are decided last, so that no other rule allows them again. One
// object for each sequence that needs rules; not thread-safe.
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
  std::vector<std::pair<TokenId, float>> bias;  // for ids in the vocabulary
  int min_tokens = 0;
  std::vector<TokenId> late;  // cannot be drawn before min_tokens
};

/// The penalties, clamped to the range that Apply uses.
struct LogitPenalties {
  float repetition = 1;  // 1e-30 to 1e30
  float frequency = 0;
  float presence = 0;
};

class LogitRules {
 public:
  /// `vocab`: ids that are not below this are ignored.
  LogitRules(LogitRuleParams params, absl::Span<const TokenId> prompt, int vocab);

  /// Returns whether these rules would change nothing; such a sequence needs no LogitRules.
  static bool IsNothing(const LogitRuleParams& params);

  /// Counts a generated token.
  void Count(TokenId token);
  /// Returns whether the late tokens are still forbidden.
  bool Forbids() const { return generated_ < params_.min_tokens && !params_.late.empty(); }
  /// Changes a row [vocab]. If `forbid` is set and Forbids(), the late tokens get kForbiddenLogit. NaN stays
  /// NaN.
  void Apply(absl::Span<float> logits, bool forbid) const;
  /// Does the same for a row that contains only some tokens: `logit_of` returns null for the others.
  void Apply(absl::FunctionRef<float*(TokenId token)> logit_of, bool forbid) const;

  /// Returns the rules as a list with each token once, for code that applies them elsewhere; nullopt if a
  /// token has several biases.
  std::optional<absl::Span<const TokenRule>> List() const;
  const LogitPenalties& penalties() const { return penalties_; }

 private:
  TokenRule& RuleOf(TokenId token);

  const LogitRuleParams params_;
  const TokenId vocab_;
  const bool penalises_;
  const LogitPenalties penalties_;
  int generated_ = 0;
  bool repeats_bias_ = false;                      // whether a token has several biases
  std::vector<TokenRule> rules_;                   // each token once
  absl::flat_hash_map<TokenId, size_t> index_of_;  // in rules_
};

}  // namespace numoe::execution
