#include "coordinator/engine/scheduler/token_drawer.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::engine {
namespace {

absl::StatusOr<absl::Span<const uint64_t>> MaskFromConstraint(Sequence& s) {
  NUMOE_DCHECK(s.request.constraint != nullptr && !s.drawing.mask);
  ASSIGN_OR_RETURN(const absl::Span<const uint64_t> mask, s.request.constraint->Mask());
  if (s.allowed.empty()) return mask;
  if (mask.empty()) return absl::MakeConstSpan(s.allowed);
  std::vector<uint64_t>& combined = s.drawing.combined_mask;
  combined.resize(std::min(mask.size(), s.allowed.size()));
  for (size_t i = 0; i < combined.size(); ++i) combined[i] = mask[i] & s.allowed[i];
  if (std::all_of(combined.begin(), combined.end(), [](uint64_t word) { return word == 0; })) {
    return absl::InvalidArgumentError(
        "allowed_token_ids: none of these tokens may follow, because tools, tool_choice or structured output "
        "require another one; expected at least one that they allow: leave out either allowed_token_ids or "
        "the "
        "parameter that restricts the output");
  }
  return absl::MakeConstSpan(combined);
}

absl::StatusOr<absl::Span<const uint64_t>> AllowedTokens(Sequence& s) {
  if (s.request.constraint == nullptr) return absl::MakeConstSpan(s.allowed);
  if (!s.drawing.mask) s.drawing.mask = MaskFromConstraint(s);
  return *s.drawing.mask;
}

}  // namespace

absl::Span<const float> TokenDrawer::Known(absl::Span<const float> logits) const {
  return logits.subspan(0, std::min(logits.size(), static_cast<size_t>(vocab_)));
}

execution::SamplingChoice TokenDrawer::ChoiceOf(const Sequence& s, absl::Span<const uint64_t> allowed) const {
  const SamplingParams& p = s.request.sampling;
  return {.temperature = p.temperature,
          .top_p = p.top_p,
          .top_k = p.top_k,
          .min_p = p.min_p,
          .seed = s.seed,
          .position = static_cast<int64_t>(s.tokens.size()),
          .allowed = allowed,
          .rules = s.drawing.rules.get()};
}

absl::StatusOr<execution::SampleSpec> TokenDrawer::SpecOf(Sequence& s) const {
  ASSIGN_OR_RETURN(const absl::Span<const uint64_t> allowed, AllowedTokens(s));
  return execution::SampleSpec{
      .choice = ChoiceOf(s, allowed), .vocab = vocab_, .logprobs = s.request.sampling.logprobs};
}

absl::StatusOr<execution::DrawnToken> TokenDrawer::Draw(Sequence& s, const LogitRow& row) {
  NUMOE_DCHECK_NE(row.drawn != nullptr, !row.logits.empty());
  absl::StatusOr<execution::DrawnToken> drawn = row.drawn != nullptr ? *row.drawn : DrawOnHost(s, row.logits);
  if (!drawn.ok()) return drawn;
  NUMOE_CHECK(0 <= drawn->token && drawn->token < vocab_) << drawn->token;
  if (s.drawing.rules != nullptr) s.drawing.rules->Count(drawn->token);
  if (s.request.constraint != nullptr) {
    s.drawing.mask.reset();
    s.request.constraint->Accept(drawn->token);
  }
  return drawn;
}

absl::StatusOr<execution::DrawnToken> TokenDrawer::DrawOnHost(Sequence& s, absl::Span<const float> logits) {
  ASSIGN_OR_RETURN(const absl::Span<const uint64_t> allowed, AllowedTokens(s));
  execution::DrawnToken drawn;
  ASSIGN_OR_RETURN(drawn.token, sampler_.Sample(logits, ChoiceOf(s, allowed)));
  if (const std::optional<int> top = s.request.sampling.logprobs) {
    ASSIGN_OR_RETURN(execution::TokenLogprobs found,
                     execution::ReadLogprobs(Known(logits), drawn.token, *top));
    drawn.logprobs.push_back(std::move(found));
  }
  return drawn;
}

absl::Status TokenDrawer::Score(Sequence& s, absl::Span<const float> logits) const {
  NUMOE_CHECK_GT(s.unscored(), 0) << "sequence " << s.id;
  const TokenId next = s.tokens[static_cast<size_t>(s.drawing.scored) + 1];
  const int top = s.request.sampling.prompt_logprobs.value_or(0);
  ASSIGN_OR_RETURN(execution::TokenLogprobs found, execution::ReadLogprobs(Known(logits), next, top));
  s.drawing.scores.push_back(std::move(found));
  ++s.drawing.scored;
  return absl::OkStatus();
}

}  // namespace numoe::engine
