#include "coordinator/execution/attention/gqa.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/attention/rope.h"

namespace numoe::execution {

GqaAttention::GqaAttention(const ModelConfig& config, DeviceStore& store, StepClock& clock)
    : config_(config),
      store_(store),
      clock_(clock),
      scale_(static_cast<float>(YarnSoftmaxFactor(config.rope) / std::sqrt(config.head_dim))),
      layers_(static_cast<size_t>(config.num_layers)) {
  NUMOE_CHECK(config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads == 0);
  NUMOE_CHECK_EQ(config.rope.dim, config.head_dim) << "whole heads are rotated";
  const RopeFrequencies plan = PlanRope(config.rope);
  rope_ = store.LoadRope(plan.inverse, plan.multiplier, config.rope.layout);
  query_ = store.NewTensor(config.num_heads * config.head_dim);
  key_ = store.NewTensor(config.num_kv_heads * config.head_dim);
  cache_ = store.NewCache(
      {.layers = config.LayersOf(AttentionKind::kGqa),
       .row = {.heads = config.num_kv_heads, .key_width = config.head_dim, .value_width = config.head_dim},
       .query_heads = config.num_heads});
  cache_row_ = store.NewTensor(cache_.width);
  heads_out_ = store.NewTensor(config.num_heads * config.head_dim);
}

absl::Status GqaAttention::LoadLayer(const Checkpoint& checkpoint, LayerId layer) {
  const ModelConfig& c = config_;
  const std::string prefix = absl::StrCat(c.tensor_prefix, "model.layers.", layer, ".self_attn.");
  const int query_width = c.num_heads * c.head_dim;
  const int kv_width = c.num_kv_heads * c.head_dim;
  const auto load = [&](const char* name, int rows, int cols) -> absl::StatusOr<Matrix> {
    ASSIGN_OR_RETURN(const MatrixView view, checkpoint.FindMatrix(prefix + name, rows, cols, c));
    return store_.LoadMatrix(view);
  };
  Weights w;
  ASSIGN_OR_RETURN(w.q, load("q_proj", query_width, c.hidden_size));
  ASSIGN_OR_RETURN(w.k, load("k_proj", kv_width, c.hidden_size));
  ASSIGN_OR_RETURN(w.v, load("v_proj", kv_width, c.hidden_size));
  ASSIGN_OR_RETURN(w.out, load("o_proj", c.hidden_size, query_width));
  ASSIGN_OR_RETURN(const auto q_norm, checkpoint.ReadVector(prefix + "q_norm.weight", c.head_dim));
  ASSIGN_OR_RETURN(const auto k_norm, checkpoint.ReadVector(prefix + "k_norm.weight", c.head_dim));
  w.q_norm = store_.LoadVector(q_norm);
  w.k_norm = store_.LoadVector(k_norm);
  NUMOE_CHECK(0 <= layer && layer < c.num_layers &&
              c.layer_attention[static_cast<size_t>(layer)] == AttentionKind::kGqa);
  NUMOE_CHECK_LT(loaded_, cache_.layers) << "a layer is loaded once";
  w.cache = cache_.At(loaded_++);
  NUMOE_CHECK(w.q.rows == query_.cols && w.out.cols == heads_out_.cols);
  NUMOE_CHECK_EQ(w.k.rows + w.v.rows, cache_row_.cols) << "a row is the keys and the values";
  layers_[static_cast<size_t>(layer)] = w;
  return absl::OkStatus();
}

void GqaAttention::Forward(Operations& ops, Rows rows, LayerId layer, Tensor x, Tensor residual) {
  const ModelConfig& c = config_;
  NUMOE_DCHECK(0 <= layer && layers_[static_cast<size_t>(layer)].cache.cache == cache_.id);
  NUMOE_DCHECK(x.cols == c.hidden_size && residual.cols == c.hidden_size);
  const Weights& w = layers_[layer];
  const float eps = static_cast<float>(c.rms_norm_eps);
  const int d = c.head_dim;
  const HeadView query{query_, c.num_heads, d, 0};
  const HeadView key{key_, c.num_kv_heads, d, 0};

  clock_.Enter(StepPart::kAttentionLinear);
  ops.Linear(rows, x,
             {{w.q, {query_}}, {w.k, {key_}}, {w.v, {.tensor = cache_row_, .offset = c.num_kv_heads * d}}});

  clock_.Enter(StepPart::kAttentionRotary);
  ops.RmsNorm(rows, query, d, w.q_norm, eps, query);
  ops.Rope(rows, rope_, query, query);
  ops.RmsNorm(rows, key, d, w.k_norm, eps, key);
  ops.Rope(rows, rope_, key, {cache_row_, c.num_kv_heads, d, 0});
  ops.WriteKv(rows, w.cache, cache_row_);

  clock_.Enter(StepPart::kAttentionCore);
  ops.Attend(rows, {.cache = w.cache,
                    .query = query_,
                    .out = heads_out_,
                    .heads = c.num_heads,
                    .key_width = d,
                    .value_width = d,
                    .kv_heads = c.num_kv_heads,
                    .value_in_key = false,
                    .scale = scale_});
  clock_.Enter(StepPart::kAttentionLinear);
  ops.Linear(rows, heads_out_, {{w.out, {residual}, /*accumulate=*/true}});
}

}  // namespace numoe::execution
