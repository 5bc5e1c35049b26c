// GqaAttention: grouped-query attention (https://arxiv.org/abs/2305.13245) as in Qwen3: before rotation, q
// and k are RMS-normed per head, over head_dim and with one weight for all heads.
//
// The cache row of a token is its rotated keys [kv_heads, head_dim] followed by its values [kv_heads,
// head_dim]. Used by the engine thread only.
#pragma once

#include <vector>

#include "coordinator/execution/attention/attention.h"

namespace numoe::execution {

class GqaAttention final : public Attention {
 public:
  GqaAttention(const ModelConfig& config, DeviceStore& store, StepClock& clock);

  absl::Status LoadLayer(const Checkpoint& checkpoint, LayerId layer) override;
  void Forward(Operations& ops, Rows rows, LayerId layer, Tensor x, Tensor residual) override;

 private:
  struct Weights {
    Matrix q, k, v, out;
    Vector q_norm, k_norm;
    CachePlace cache;
  };

  const ModelConfig config_;
  DeviceStore& store_;
  StepClock& clock_;
  const float scale_;
  RopeTable rope_;
  Tensor query_;      // [heads * head_dim]
  Tensor key_;        // [kv_heads * head_dim]
  Tensor cache_row_;  // keys, then values
  Tensor heads_out_;  // [heads * head_dim]
  Cache cache_;
  int loaded_ = 0;               // number of loaded layers of this kind
  std::vector<Weights> layers_;  // [num_layers]; empty for layers of other kinds
};

}  // namespace numoe::execution
