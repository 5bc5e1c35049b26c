#include "coordinator/engine/scheduler/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::engine {
namespace {

absl::Status CheckToken(const char* name, TokenId token, int vocab) {
  if (token >= 0 && token < vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: token {} is not in the vocabulary of {} tokens", name, token, vocab));
}

absl::Status CheckCount(const char* name, std::optional<int> count) {
  if (!count || (*count >= 0 && *count <= execution::kLogprobsMax)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: {}, expected 0 to {}", name, *count, execution::kLogprobsMax));
}

absl::Status CheckSampling(const SamplingParams& p, int vocab) {
  if (!std::isfinite(p.frequency_penalty))
    return absl::InvalidArgumentError("frequency_penalty: expected a number");
  if (!std::isfinite(p.presence_penalty))
    return absl::InvalidArgumentError("presence_penalty: expected a number");
  if (!std::isfinite(p.repetition_penalty) || p.repetition_penalty <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("repetition_penalty: {}, expected a number greater than 0", p.repetition_penalty));
  }
  for (const auto& [token, bias] : p.logit_bias) {
    RETURN_IF_ERROR(CheckToken("logit_bias", token, vocab));
    if (!std::isfinite(bias)) return absl::InvalidArgumentError("logit_bias: expected numbers");
  }
  for (const TokenId token : p.allowed_token_ids)
    RETURN_IF_ERROR(CheckToken("allowed_token_ids", token, vocab));
  RETURN_IF_ERROR(CheckCount("logprobs", p.logprobs));
  return CheckCount("prompt_logprobs", p.prompt_logprobs);
}

std::vector<uint64_t> MaskOf(const std::vector<TokenId>& tokens, int vocab) {
  if (tokens.empty()) return {};
  std::vector<uint64_t> mask(static_cast<size_t>(vocab) / 64 + 1);
  for (const TokenId token : tokens) mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
  return mask;
}

std::unique_ptr<execution::LogitRules> RulesOf(const EngineRequest& request, const SequenceLimits& limits) {
  const SamplingParams& p = request.sampling;
  execution::LogitRuleParams params{.frequency_penalty = p.frequency_penalty,
                                    .presence_penalty = p.presence_penalty,
                                    .repetition_penalty = p.repetition_penalty,
                                    .bias = p.logit_bias,
                                    .min_tokens = p.min_tokens};
  if (p.min_tokens > 0) {
    params.late = limits.eos_token_ids;
    params.late.insert(params.late.end(), p.stop_token_ids.begin(), p.stop_token_ids.end());
  }
  if (execution::LogitRules::IsNothing(params)) return nullptr;
  return std::make_unique<execution::LogitRules>(std::move(params), request.prompt, limits.vocab);
}

// Returns the number of tokens, the prompt's included, at which the answer has max_tokens or the context is
// full.
int64_t EndOf(const EngineRequest& request, const SequenceLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const std::optional<int> asked = request.sampling.max_tokens;
  return asked ? std::min(prompt + *asked, limits.tokens_max) : limits.tokens_max;
}

}  // namespace

Sequence::Sequence(EngineRequest asked, const SequenceLimits& limits)
    : request(std::move(asked)),
      prompt_tokens(static_cast<int64_t>(request.prompt.size())),
      tokens_max(EndOf(request, limits)),
      allowed(MaskOf(request.sampling.allowed_token_ids, limits.vocab)),
      tokens(request.prompt) {
  NUMOE_CHECK(0 < prompt_tokens && prompt_tokens <= tokens_max && tokens_max <= limits.tokens_max);
  drawing.rules = RulesOf(request, limits);
}

int Sequence::LogitRows(int count) const {
  const int64_t end = kv.cached + count;
  NUMOE_DCHECK(count > 0 && end <= static_cast<int64_t>(tokens.size())) << count << " after " << kv.cached;
  if (unscored() > 0) return static_cast<int>(std::max<int64_t>(0, end - drawing.scored));
  return end == static_cast<int64_t>(tokens.size()) ? 1 : 0;
}

absl::StatusOr<SequencePtr> MakeSequence(EngineRequest request, const SequenceLimits& limits) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  NUMOE_CHECK_GT(prompt, 0);
  if (prompt + 1 > limits.tokens_max) {
    return absl::InvalidArgumentError(
        fmt::format("the prompt has {} tokens, but the context holds {} including the answer", prompt,
                    limits.tokens_max));
  }
  for (const TokenId token : request.prompt) RETURN_IF_ERROR(CheckToken("prompt", token, limits.vocab));
  RETURN_IF_ERROR(CheckSampling(request.sampling, limits.vocab));
  return std::make_unique<Sequence>(std::move(request), limits);
}

}  // namespace numoe::engine
