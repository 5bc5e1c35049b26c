#include "coordinator/execution/sampling/logit_rules.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::execution {
namespace {

// Far larger than every logit, and small enough that a rule's result stays finite.
constexpr float kLargest = 1e30f;

float Within(double value, float least) {
  return static_cast<float>(std::clamp<double>(value, least, kLargest));
}

}  // namespace

bool LogitRules::IsNothing(const LogitRuleParams& params) {
  return params.frequency_penalty == 0 && params.presence_penalty == 0 && params.repetition_penalty == 1 &&
         params.bias.empty() && (params.min_tokens <= 0 || params.late.empty());
}

LogitRules::LogitRules(LogitRuleParams params, absl::Span<const TokenId> prompt, int vocab)
    : params_(std::move(params)),
      vocab_(vocab),
      penalises_(params_.frequency_penalty != 0 || params_.presence_penalty != 0 ||
                 params_.repetition_penalty != 1),
      penalties_{.repetition = Within(params_.repetition_penalty, 1 / kLargest),
                 .frequency = Within(params_.frequency_penalty, -kLargest),
                 .presence = Within(params_.presence_penalty, -kLargest)} {
  for (const auto& [token, bias] : params_.bias) {
    TokenRule& rule = RuleOf(token);
    repeats_bias_ |= rule.biased;
    rule.biased = true;
    rule.bias = bias;
  }
  for (const TokenId token : params_.late) {
    if (token < vocab_) RuleOf(token).late = true;
  }
  if (params_.repetition_penalty == 1) return;
  for (const TokenId token : prompt) {
    if (token < vocab_) RuleOf(token).seen = true;
  }
}

TokenRule& LogitRules::RuleOf(TokenId token) {
  NUMOE_DCHECK_GE(token, 0);
  NUMOE_DCHECK_EQ(index_of_.size(), rules_.size());
  const auto [found, is_new] = index_of_.try_emplace(token, rules_.size());
  if (is_new) rules_.push_back({.token = token});
  return rules_[found->second];
}

void LogitRules::Count(TokenId token) {
  ++generated_;
  if (!penalises_) return;
  TokenRule& rule = RuleOf(token);
  rule.seen = true;
  ++rule.generated;
}

std::optional<absl::Span<const TokenRule>> LogitRules::List() const {
  if (repeats_bias_) return std::nullopt;
  return absl::MakeConstSpan(rules_);
}

void LogitRules::Apply(absl::Span<float> logits, bool forbid) const {
  NUMOE_DCHECK_EQ(logits.size(), static_cast<size_t>(vocab_));
  Apply([&](TokenId token) { return &logits[static_cast<size_t>(token)]; }, forbid);
}

void LogitRules::Apply(absl::FunctionRef<float*(TokenId token)> logit_of, bool forbid) const {
  for (const auto& [token, bias] : params_.bias) {
    if (float* logit = logit_of(token)) *logit = std::clamp(*logit + bias, -kLargest, kLargest);
  }
  const auto [repetition, frequency, presence] = penalties_;
  for (const TokenRule& rule : rules_) {
    float* const at = rule.seen ? logit_of(rule.token) : nullptr;
    if (at == nullptr) continue;
    float logit = *at > 0 ? *at / repetition : *at * repetition;
    if (rule.generated > 0) logit -= frequency * static_cast<float>(rule.generated) + presence;
    *at = std::clamp(logit, -kLargest, kLargest);
  }
  if (!forbid || !Forbids()) return;
  for (const TokenId token : params_.late) {
    float* const at = token < vocab_ ? logit_of(token) : nullptr;
    if (at != nullptr) *at = kForbiddenLogit;
  }
}

}  // namespace numoe::execution
