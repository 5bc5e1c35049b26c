// GateSelector: selects a token's experts and their combine weights from the logits of the gate.
//
// noaux_tc (DeepSeek-V3, https://arxiv.org/abs/2412.19437): s = sigmoid(logits); experts are chosen by s +
// bias, first the topk_group groups with the largest sum of their two best choices, then the top k experts
// inside them; weights are s without the bias, normalised if asked, times `scaling`. softmax (Qwen3-MoE): top
// k of softmax(logits), normalised if asked. Ties go to the lower index. fp32 throughout, like the reference.
// With deferred experts (KTransformers, SOSP 2025, https://doi.org/10.1145/3731569.3764843) those with the
// smallest combine weights come last, so that the workers can tell them from the others. It allocates nothing
// after construction, and holds scratch memory: use one GateSelector per thread.
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
  int deferred_experts = 0;  // number of experts with the smallest weights, which come last; among equal
                             // weights those with the higher ids
};

class GateSelector {
 public:
  /// REQUIRES: experts % n_group == 0; experts_per_token <= experts of the kept groups.
  GateSelector(const GateParams& params, int experts);

  /// Writes `chosen` and `weights` [experts_per_token], best first, with the deferred experts after the
  /// others. `logits` is [experts]; `bias` is [experts] or empty.
  void Select(absl::Span<const float> logits, absl::Span<const float> bias, absl::Span<ExpertId> chosen,
              absl::Span<float> weights);

 private:
  void Score(absl::Span<const float> logits, absl::Span<const float> bias);
  void MaskGroups();
  void KeepBest(absl::Span<ExpertId> chosen) const;
  void PutDeferredLast(absl::Span<ExpertId> chosen, absl::Span<float> weights) const;

  const GateParams params_;
  std::vector<float> scores_;   // [experts] from which weights are computed
  std::vector<float> choices_;  // [experts] by which experts are selected; -inf if masked
  std::vector<float> groups_;   // [n_group] group scores
};

}  // namespace numoe::execution
