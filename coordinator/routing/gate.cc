#include "coordinator/routing/gate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace numoe {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Index of the largest value; the lowest index among equals.
int ArgMax(absl::Span<const float> values) {
  return static_cast<int>(std::max_element(values.begin(), values.end()) - values.begin());
}

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
}

void GateSelector::Select(absl::Span<const float> logits, absl::Span<const float> bias,
                          absl::Span<ExpertId> chosen, absl::Span<float> weights) {
  NUMOE_DCHECK(logits.size() == scores_.size());
  NUMOE_DCHECK(chosen.size() == static_cast<size_t>(params_.experts_per_token) &&
               weights.size() == chosen.size());
  Score(logits, bias);
  if (params_.n_group > 1) MaskGroups();
  float sum = 0;
  for (size_t k = 0; k < chosen.size(); ++k) {
    const int best = ArgMax(choices_);
    chosen[k] = best;
    weights[k] = scores_[best];
    sum += scores_[best];
    choices_[best] = kMasked;
  }
  // The reference guards the sigmoid sum against zero; a softmax sum cannot be zero.
  const float guard = params_.scoring == GateScoring::kSigmoidNoAuxTc ? 1e-20f : 0.0f;
  for (float& w : weights) w = (params_.norm_topk_prob ? w / (sum + guard) : w) * params_.scaling;
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
  // Drop the weakest groups one by one; among equals the higher index goes first.
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

}  // namespace numoe
