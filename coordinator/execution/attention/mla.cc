#include "coordinator/execution/attention/mla.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/attention/rope.h"

namespace numoe::execution {
namespace {

float SoftmaxScale(const ModelConfig& config) {
  const double width = config.qk_nope_head_dim + config.qk_rope_head_dim;
  return static_cast<float>(YarnSoftmaxFactor(config.rope) / std::sqrt(width));
}

}  // namespace

MlaAttention::MlaAttention(const ModelConfig& config, DeviceStore& store, StepClock& clock)
    : config_(config),
      store_(store),
      clock_(clock),
      scale_(SoftmaxScale(config)),
      layers_(static_cast<size_t>(config.num_layers)) {
  NUMOE_CHECK_GT(config.kv_lora_rank, 0);
  NUMOE_CHECK_EQ(config.rope.dim, config.qk_rope_head_dim);
  const RopeFrequencies plan = PlanRope(config.rope);
  cache_ = store.NewCache({.layers = config.LayersOf(AttentionKind::kMla),
                           .row = {.key_width = config.kv_lora_rank + config.qk_rope_head_dim,
                                   .plain_width = config.qk_rope_head_dim},
                           .query_heads = config.num_heads});
  const int row = cache_.width;
  rope_ = store.LoadRope(plan.inverse, plan.multiplier, config.rope.layout);
  if (config.q_lora_rank > 0) q_latent_ = store.NewTensor(config.q_lora_rank);
  query_ = store.NewTensor(config.num_heads * (config.qk_nope_head_dim + config.qk_rope_head_dim));
  absorbed_ = store.NewTensor(config.num_heads * row);
  compressed_ = store.NewTensor(row);
  cache_row_ = store.NewTensor(row);
  context_ = store.NewTensor(config.num_heads * config.kv_lora_rank);
  heads_out_ = store.NewTensor(config.num_heads * config.v_head_dim);
}

absl::Status MlaAttention::LoadLayer(const Checkpoint& checkpoint, LayerId layer) {
  const ModelConfig& c = config_;
  const std::string prefix = absl::StrCat(c.tensor_prefix, "model.layers.", layer, ".self_attn.");
  const int query_width = c.num_heads * (c.qk_nope_head_dim + c.qk_rope_head_dim);
  const auto load = [&](const char* name, int rows, int cols) -> absl::StatusOr<Matrix> {
    ASSIGN_OR_RETURN(const MatrixView view, checkpoint.FindMatrix(prefix + name, rows, cols, c));
    return store_.LoadMatrix(view);
  };
  Weights w;
  if (c.q_lora_rank > 0) {
    ASSIGN_OR_RETURN(w.q_a, load("q_a_proj", c.q_lora_rank, c.hidden_size));
    ASSIGN_OR_RETURN(const auto norm, checkpoint.ReadVector(prefix + "q_a_layernorm.weight", c.q_lora_rank));
    w.q_a_norm = store_.LoadVector(norm);
    ASSIGN_OR_RETURN(w.q_b, load("q_b_proj", query_width, c.q_lora_rank));
  } else {
    ASSIGN_OR_RETURN(w.q_b, load("q_proj", query_width, c.hidden_size));
  }
  ASSIGN_OR_RETURN(w.kv_a, load("kv_a_proj_with_mqa", cache_.width, c.hidden_size));
  ASSIGN_OR_RETURN(const auto kv_norm,
                   checkpoint.ReadVector(prefix + "kv_a_layernorm.weight", c.kv_lora_rank));
  w.kv_a_norm = store_.LoadVector(kv_norm);
  RETURN_IF_ERROR(LoadKvUp(checkpoint, prefix, w));
  ASSIGN_OR_RETURN(w.out, load("o_proj", c.hidden_size, c.num_heads * c.v_head_dim));
  NUMOE_CHECK(0 <= layer && layer < c.num_layers &&
              c.layer_attention[static_cast<size_t>(layer)] == AttentionKind::kMla);
  NUMOE_CHECK_LT(loaded_, cache_.layers) << "a layer is loaded once";
  w.cache = cache_.At(loaded_++);
  NUMOE_CHECK(w.q_b.rows == query_.cols && w.out.cols == heads_out_.cols);
  NUMOE_CHECK(w.kv_a.rows == compressed_.cols && w.kv_a_norm.size + c.rope.dim == cache_row_.cols);
  layers_[static_cast<size_t>(layer)] = w;
  return absl::OkStatus();
}

absl::Status MlaAttention::LoadKvUp(const Checkpoint& checkpoint, const std::string& prefix,
                                    Weights& weights) {
  const int nope = config_.qk_nope_head_dim;
  const int value = config_.v_head_dim;
  const int latent = config_.kv_lora_rank;
  const int heads = config_.num_heads;
  std::vector<float> absorbed(size_t{1} * heads * latent * nope);
  std::vector<float> value_up(size_t{1} * heads * value * latent);
  if (checkpoint.Has(prefix + "k_b_proj.weight")) {
    RETURN_IF_ERROR(ReadKvHalves(checkpoint, prefix, absl::MakeSpan(absorbed), absl::MakeSpan(value_up)));
  } else {
    RETURN_IF_ERROR(ReadKvWhole(checkpoint, prefix, absl::MakeSpan(absorbed), absl::MakeSpan(value_up)));
  }
  std::vector<float> key_up(absorbed.size());
  for (int h = 0; h < heads; ++h) {
    const size_t head = size_t{1} * h * latent * nope;
    for (int r = 0; r < latent; ++r) {
      for (int n = 0; n < nope; ++n)
        key_up[head + size_t{1} * n * latent + r] = absorbed[head + size_t{1} * r * nope + n];
    }
  }
  ASSIGN_OR_RETURN(weights.key_up, store_.LoadHeads(key_up, heads, nope, latent));
  ASSIGN_OR_RETURN(weights.key_absorbed, store_.LoadHeads(absorbed, heads, latent, nope));
  ASSIGN_OR_RETURN(weights.value_up, store_.LoadHeads(value_up, heads, value, latent));
  return absl::OkStatus();
}

// kv_b_proj is [heads, nope + v_head, kv_lora]; the absorbed query needs the key half transposed.
absl::Status MlaAttention::ReadKvWhole(const Checkpoint& checkpoint, const std::string& prefix,
                                       absl::Span<float> absorbed, absl::Span<float> value_up) const {
  const int nope = config_.qk_nope_head_dim;
  const int value = config_.v_head_dim;
  const int latent = config_.kv_lora_rank;
  ASSIGN_OR_RETURN(const MatrixView view,
                   checkpoint.FindMatrix(prefix + "kv_b_proj", int64_t{config_.num_heads} * (nope + value),
                                         latent, config_));
  std::vector<float> head(size_t{1} * (nope + value) * latent);
  for (int h = 0; h < config_.num_heads; ++h) {
    const int64_t first = int64_t{h} * (nope + value);
    DecodeMatrix(view, first, first + nope + value, 0, latent, absl::MakeSpan(head));
    float* key = &absorbed[size_t{1} * h * latent * nope];
    for (int n = 0; n < nope; ++n) {
      for (int r = 0; r < latent; ++r) key[size_t{1} * r * nope + n] = head[size_t{1} * n * latent + r];
    }
    std::copy_n(&head[size_t{1} * nope * latent], size_t{1} * value * latent,
                &value_up[size_t{1} * h * value * latent]);
  }
  return absl::OkStatus();
}

// GGUF stores the halves separately, with the key half already transposed.
absl::Status MlaAttention::ReadKvHalves(const Checkpoint& checkpoint, const std::string& prefix,
                                        absl::Span<float> absorbed, absl::Span<float> value_up) const {
  const int nope = config_.qk_nope_head_dim;
  const int latent = config_.kv_lora_rank;
  const int64_t key_rows = int64_t{config_.num_heads} * latent;
  const int64_t value_rows = int64_t{config_.num_heads} * config_.v_head_dim;
  ASSIGN_OR_RETURN(const MatrixView key, checkpoint.FindMatrix(prefix + "k_b_proj", key_rows, nope, config_));
  ASSIGN_OR_RETURN(const MatrixView value,
                   checkpoint.FindMatrix(prefix + "v_b_proj", value_rows, latent, config_));
  DecodeMatrix(key, 0, key_rows, 0, nope, absorbed);
  DecodeMatrix(value, 0, value_rows, 0, latent, value_up);
  return absl::OkStatus();
}

void MlaAttention::Forward(Operations& ops, Rows rows, LayerId layer, Tensor x, Tensor residual) {
  const ModelConfig& c = config_;
  NUMOE_DCHECK(0 <= layer && layers_[static_cast<size_t>(layer)].cache.cache == cache_.id);
  NUMOE_DCHECK(x.cols == c.hidden_size && residual.cols == c.hidden_size);
  const Weights& w = layers_[layer];
  const float eps = static_cast<float>(c.rms_norm_eps);
  const int row = cache_.width;

  // Query: down projection, norm, up projection. The compressed key and value have the same input.
  clock_.Enter(StepPart::kAttentionLinear);
  if (c.q_lora_rank > 0) {
    ops.Linear(rows, x, {{w.q_a, {q_latent_}}, {w.kv_a, {compressed_}}});
    ops.RmsNorm(rows, {q_latent_}, c.q_lora_rank, w.q_a_norm, eps, {q_latent_});
    ops.Linear(rows, q_latent_, {{w.q_b, {query_}}});
  } else {
    ops.Linear(rows, x, {{w.q_b, {query_}}, {w.kv_a, {compressed_}}});
  }

  // Cache row: normed latent and the shared rotated key.
  clock_.Enter(StepPart::kAttentionRotary);
  const HeadView query_rope{query_, c.num_heads, c.qk_nope_head_dim + c.qk_rope_head_dim, c.qk_nope_head_dim};
  ops.Rope(rows, rope_, query_rope, query_rope);
  ops.RmsNorm(rows, {compressed_}, c.kv_lora_rank, w.kv_a_norm, eps, {cache_row_});
  ops.Rope(rows, rope_, {compressed_, 1, row, c.kv_lora_rank}, {cache_row_, 1, row, c.kv_lora_rank});
  ops.WriteKv(rows, w.cache, cache_row_);

  clock_.Enter(StepPart::kAttentionCore);
  ops.AttendLatent(rows, {.cache = w.cache,
                          .query = query_,
                          .out = heads_out_,
                          .absorbed = absorbed_,
                          .context = context_,
                          .key_up = w.key_up,
                          .key_absorbed = w.key_absorbed,
                          .value_up = w.value_up,
                          .scale = scale_});
  clock_.Enter(StepPart::kAttentionLinear);
  ops.Linear(rows, heads_out_, {{w.out, {residual}, /*accumulate=*/true}});
}

}  // namespace numoe::execution
