// Expert selection: from a token's router logits to its experts and combine weights.
//
// noaux_tc (DeepSeek-V3, https://arxiv.org/abs/2412.19437): s = sigmoid(logits); experts are chosen by s +
// bias, first the topk_group groups with the largest sum of their two best choices, then the top k experts
// inside them; weights are s without the bias, normalised if asked, times `scaling`. softmax (Qwen3-MoE): top
// k of softmax(logits), normalised if asked. Ties go to the lower index. fp32 throughout, like the reference.
// With deferred experts (KTransformers, SOSP 2025, https://doi.org/10.1145/3731569.3764843) those with the
// smallest combine weights come last, so that whoever computes them can tell them from the others.
// Thread-safe, no allocation after construction: one GateSelector per thread.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/weights/model_config.h"

namespace numoe::execution {

/// How a gate turns logits into experts and weights.
struct GateParams {
  GateScoring scoring = GateScoring::kSigmoidNoAuxTc;
  int experts_per_token = 0;
  int n_group = 1;
  int topk_group = 1;
  bool norm_topk_prob = true;
  float scaling = 1.0f;
  int deferred_experts = 0;  // so many with the smallest weights come last; of equals the higher ids
};

class GateSelector {
 public:
  /// REQUIRES: experts % n_group == 0; experts_per_token <= experts of the kept groups.
  GateSelector(const GateParams& params, int experts);

  /// logits [experts], bias [experts] or empty -> chosen, weights [experts_per_token], best first, but for
  /// the deferred ones, which come behind the others.
  void Select(absl::Span<const float> logits, absl::Span<const float> bias, absl::Span<ExpertId> chosen,
              absl::Span<float> weights);

 private:
  void Score(absl::Span<const float> logits, absl::Span<const float> bias);
  void MaskGroups();
  void KeepBest(absl::Span<ExpertId> chosen) const;
  void PutDeferredLast(absl::Span<ExpertId> chosen, absl::Span<float> weights) const;

  const GateParams params_;
  std::vector<float> scores_;   // [experts] what weights are made of
  std::vector<float> choices_;  // [experts] what selection looks at; -inf: masked
  std::vector<float> groups_;   // [n_group] group scores
};

}  // namespace numoe::execution
