#include "coordinator/scheduler/token_drawer.h"

#include <algorithm>

#include "common/base/status.h"

namespace numoe {

absl::Span<const float> TokenDrawer::Known(absl::Span<const float> logits) const {
  return logits.subspan(0, std::min(logits.size(), static_cast<size_t>(vocab_)));
}

absl::StatusOr<absl::Span<const uint64_t>> TokenDrawer::AllowedTokens(Sequence& s) {
  TokenConstraint* const constraint = s.request.constraint.get();
  if (constraint == nullptr) return absl::MakeConstSpan(s.allowed);
  ASSIGN_OR_RETURN(const absl::Span<const uint64_t> mask, constraint->Mask());
  if (s.allowed.empty()) return mask;
  if (mask.empty()) return absl::MakeConstSpan(s.allowed);
  both_.resize(std::min(mask.size(), s.allowed.size()));
  for (size_t i = 0; i < both_.size(); ++i) both_[i] = mask[i] & s.allowed[i];
  if (std::all_of(both_.begin(), both_.end(), [](uint64_t word) { return word == 0; })) {
    return absl::InvalidArgumentError(
        "allowed_token_ids: none of these tokens may come next by what tools, tool_choice or structured "
        "output ask for; leave one of them out");
  }
  return absl::MakeConstSpan(both_);
}

absl::StatusOr<DrawnToken> TokenDrawer::Draw(Sequence& s, absl::Span<const float> logits) {
  const SamplingParams& p = s.request.sampling;
  SamplingChoice choice{.temperature = p.temperature,
                        .top_p = p.top_p,
                        .top_k = p.top_k,
                        .min_p = p.min_p,
                        .seed = s.seed,
                        .position = static_cast<int64_t>(s.tokens.size()),
                        .allowed = {},
                        .rules = s.rules.get()};
  ASSIGN_OR_RETURN(choice.allowed, AllowedTokens(s));
  DrawnToken drawn;
  ASSIGN_OR_RETURN(drawn.token, sampler_.Sample(logits, choice));
  if (p.logprobs) {
    ASSIGN_OR_RETURN(TokenLogprobs found, ReadLogprobs(Known(logits), drawn.token, *p.logprobs));
    drawn.logprobs.push_back(std::move(found));
  }
  if (s.rules != nullptr) s.rules->Count(drawn.token);
  if (s.request.constraint != nullptr) s.request.constraint->Accept(drawn.token);
  return drawn;
}

absl::Status TokenDrawer::Score(Sequence& s, absl::Span<const float> logits) const {
  const TokenId next = s.tokens[static_cast<size_t>(s.scored) + 1];
  const int top = s.request.sampling.prompt_logprobs.value_or(0);
  ASSIGN_OR_RETURN(TokenLogprobs found, ReadLogprobs(Known(logits), next, top));
  s.scores.push_back(std::move(found));
  ++s.scored;
  return absl::OkStatus();
}

}  // namespace numoe
