// MlaAttention: multi-head latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434).
//
// The cache holds one row per token for all heads: the normed compressed latent c [kv_lora] and the rotated
// shared key [rope]. kv_b_proj is split per head. Its key half W_UK computes keys from latents, or is
// absorbed into the query (q_abs = W_UK^T q_nope). Its value half W_UV computes values, or is applied to the
// attended latent (o = W_UV ctx). The device chooses between these two for each step. The softmax scale is
// that of the unabsorbed head width (nope + rope). Used by the engine thread only.
#pragma once

#include <vector>

#include "coordinator/execution/attention/attention.h"

namespace numoe::execution {

class MlaAttention final : public Attention {
 public:
  MlaAttention(const ModelConfig& config, DeviceStore& store, StepClock& clock);

  absl::Status LoadLayer(const Checkpoint& checkpoint, LayerId layer) override;
  void Forward(Operations& ops, Rows rows, LayerId layer, Tensor x, Tensor residual) override;

 private:
  struct Weights {
    Matrix q_a, q_b;  // without q_lora, q_b is the plain q_proj
    Vector q_a_norm;
    Matrix kv_a;
    Vector kv_a_norm;
    HeadMatrices key_up;        // W_UK:   [heads, nope, kv_lora]
    HeadMatrices key_absorbed;  // W_UK^T: [heads, kv_lora, nope]
    HeadMatrices value_up;      // W_UV:   [heads, v_head, kv_lora]
    Matrix out;
    CachePlace cache;
  };
  absl::Status LoadKvUp(const Checkpoint& checkpoint, const std::string& prefix, Weights& weights);
  absl::Status ReadKvWhole(const Checkpoint& checkpoint, const std::string& prefix,
                           absl::Span<float> absorbed, absl::Span<float> value_up) const;
  absl::Status ReadKvHalves(const Checkpoint& checkpoint, const std::string& prefix,
                            absl::Span<float> absorbed, absl::Span<float> value_up) const;

  const ModelConfig config_;
  DeviceStore& store_;
  StepClock& clock_;
  const float scale_;
  RopeTable rope_;
  Tensor q_latent_;    // [q_lora]
  Tensor query_;       // [heads * (nope + rope)], nope first
  Tensor absorbed_;    // [heads * (kv_lora + rope)] scratch for the device
  Tensor compressed_;  // [kv_lora + rope] as projected
  Tensor cache_row_;   // [kv_lora + rope] normed and rotated
  Tensor context_;     // [heads * kv_lora] scratch for the device
  Tensor heads_out_;   // [heads * v_head]
  Cache cache_;
  int loaded_ = 0;               // number of loaded layers of this kind
  std::vector<Weights> layers_;  // [num_layers]; empty for layers of other kinds
};

}  // namespace numoe::execution
