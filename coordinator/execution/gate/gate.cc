#include "coordinator/execution/gate/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"

namespace numoe::execution {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

float SumOfTopTwo(absl::Span<const float> values) {
  float first = kMasked;
  float second = kMasked;
  for (float v : values) {
    if (v > first) {
      second = first;
      first = v;
    } else if (v > second) {
      second = v;
    }
  }
  return values.size() > 1 ? first + second : first;
}

}  // namespace

GateSelector::GateSelector(const GateParams& params, int experts)
    : params_(params), scores_(experts), choices_(experts), groups_(params.n_group) {
  NUMOE_CHECK_EQ(experts % params.n_group, 0);
  NUMOE_CHECK_LE(params.experts_per_token, experts / params.n_group * params.topk_group);
  NUMOE_CHECK_LE(params.experts_per_token, limits::kExpertsPerTokenMax);
  NUMOE_CHECK(params.deferred_experts == 0 || params.deferred_experts < params.experts_per_token);
}

void GateSelector::Select(absl::Span<const float> logits, absl::Span<const float> bias,
                          absl::Span<ExpertId> chosen, absl::Span<float> weights) {
  NUMOE_DCHECK(logits.size() == scores_.size());
  NUMOE_DCHECK(chosen.size() == static_cast<size_t>(params_.experts_per_token) &&
               weights.size() == chosen.size());
  Score(logits, bias);
  if (params_.n_group > 1) MaskGroups();
  KeepBest(chosen);
  float sum = 0;
  for (size_t k = 0; k < chosen.size(); ++k) {
    weights[k] = scores_[static_cast<size_t>(chosen[k])];
    sum += weights[k];
  }
  // The reference guards the sigmoid sum against zero; a softmax sum cannot be zero.
  const float guard = params_.scoring == GateScoring::kSigmoidNoAuxTc ? 1e-20f : 0.0f;
  for (float& w : weights) w = (params_.norm_topk_prob ? w / (sum + guard) : w) * params_.scaling;
  if (params_.deferred_experts > 0) PutDeferredLast(chosen, weights);
}

// The deferred experts keep their order, and so do the others.
void GateSelector::PutDeferredLast(absl::Span<ExpertId> chosen, absl::Span<float> weights) const {
  const size_t count = chosen.size();
  const size_t stay = count - static_cast<size_t>(params_.deferred_experts);
  const auto heavier = [&](size_t a, size_t b) {
    return weights[a] > weights[b] || (weights[a] == weights[b] && chosen[a] < chosen[b]);
  };
  std::array<bool, limits::kExpertsPerTokenMax> defers = {};
  for (size_t k = 0; k < count; ++k) {
    size_t before = 0;
    for (size_t other = 0; other < count; ++other) before += heavier(other, k) ? 1 : 0;
    defers[k] = before >= stay;
  }
  std::array<std::pair<ExpertId, float>, limits::kExpertsPerTokenMax> deferred;
  size_t immediate = 0, later = 0;
  for (size_t k = 0; k < count; ++k) {
    if (defers[k]) {
      deferred[later++] = {chosen[k], weights[k]};
    } else {
      chosen[immediate] = chosen[k];
      weights[immediate++] = weights[k];
    }
  }
  for (size_t i = 0; i < later; ++i) std::tie(chosen[immediate + i], weights[immediate + i]) = deferred[i];
}

// One pass that keeps the best experts so far in order; most experts lose the comparison with the last of
// them. Ties go to the lower index.
void GateSelector::KeepBest(absl::Span<ExpertId> chosen) const {
  size_t kept = 0;
  for (size_t e = 0; e < choices_.size(); ++e) {
    const float choice = choices_[e];
    const auto better = [&](size_t k) { return choice > choices_[static_cast<size_t>(chosen[k])]; };
    if (kept == chosen.size() && !better(kept - 1)) continue;
    size_t k = kept < chosen.size() ? kept++ : kept - 1;
    for (; k > 0 && better(k - 1); --k) chosen[k] = chosen[k - 1];
    chosen[k] = static_cast<ExpertId>(e);
  }
}

void GateSelector::Score(absl::Span<const float> logits, absl::Span<const float> bias) {
  if (params_.scoring == GateScoring::kSigmoidNoAuxTc) {
    for (size_t e = 0; e < logits.size(); ++e) {
      scores_[e] = 1.0f / (1.0f + std::exp(-logits[e]));
      choices_[e] = scores_[e] + (bias.empty() ? 0.0f : bias[e]);
    }
    return;
  }
  const float top = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (size_t e = 0; e < logits.size(); ++e) sum += scores_[e] = std::exp(logits[e] - top);
  for (size_t e = 0; e < logits.size(); ++e) choices_[e] = scores_[e] /= sum;
}

void GateSelector::MaskGroups() {
  const size_t width = choices_.size() / groups_.size();
  for (size_t g = 0; g < groups_.size(); ++g) {
    groups_[g] = SumOfTopTwo(absl::MakeSpan(choices_).subspan(g * width, width));
  }
  const size_t kept = static_cast<size_t>(params_.topk_group);
  // Mask the weakest groups one by one; if two are equally weak, the one with the higher index is masked
  // first.
  for (auto left = groups_.size(); left > kept; --left) {
    size_t weakest = groups_.size();
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g] == kMasked) continue;
      if (weakest == groups_.size() || groups_[g] <= groups_[weakest]) weakest = g;
    }
    groups_[weakest] = kMasked;
    std::fill_n(choices_.begin() + static_cast<int64_t>(weakest * width), width, kMasked);
  }
}

}  // namespace numoe::execution
