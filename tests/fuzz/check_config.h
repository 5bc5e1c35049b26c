// Checks the properties of a model's configuration on which the engine relies when it allocates memory, for
// any file format.
//
// For fuzz targets; a failure is a failed CHECK.
#pragma once

#include <cmath>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/weights/model_config.h"
#include "common/weights/weights_limits.h"

namespace numoe {

inline void CheckRope(const RopeConfig& rope) {
  NUMOE_CHECK(rope.dim >= 2 && rope.dim % 2 == 0) << rope.dim;
  NUMOE_CHECK(std::isfinite(rope.theta) && std::log(rope.theta) > 0) << rope.theta;
  if (!rope.has_yarn) return;
  NUMOE_CHECK(rope.yarn.factor >= 1 && std::isfinite(rope.yarn.factor)) << rope.yarn.factor;
  NUMOE_CHECK(rope.yarn.beta_fast > 0 && rope.yarn.beta_slow > 0) << "the engine computes their logarithms";
  NUMOE_CHECK_GE(rope.yarn.original_max_position_embeddings, 1);
}

inline void CheckConfig(const ModelConfig& c) {
  NUMOE_CHECK(c.hidden_size >= 1 && c.hidden_size <= limits::kHiddenSizeMax) << c.hidden_size;
  NUMOE_CHECK(c.num_layers >= 1 && c.num_layers <= limits::kLayersMax) << c.num_layers;
  NUMOE_CHECK_EQ(c.layer_is_moe.size(), static_cast<size_t>(c.num_layers));
  NUMOE_CHECK(c.vocab_size >= 1 && c.max_position_embeddings >= 1);
  NUMOE_CHECK_GT(c.rms_norm_eps, 0);
  NUMOE_CHECK(c.num_experts >= 1 && c.num_experts <= limits::kExpertsMax) << c.num_experts;
  NUMOE_CHECK(c.experts_per_token >= 1 && c.experts_per_token <= c.num_experts) << c.experts_per_token;
  NUMOE_CHECK(c.n_group >= 1 && c.num_experts % c.n_group == 0 && c.topk_group >= 1 &&
              c.topk_group <= c.n_group);
  NUMOE_CHECK_GE(c.num_experts / c.n_group * c.topk_group, c.experts_per_token);
  NUMOE_CHECK(c.num_heads >= 1 && c.moe_intermediate_size >= 1);
  NUMOE_CHECK_EQ(c.layer_attention.size(), static_cast<size_t>(c.num_layers));
  if (c.LayersOf(AttentionKind::kGqa) > 0) {
    NUMOE_CHECK(c.head_dim >= 2 && c.num_kv_heads >= 1 && c.num_heads % c.num_kv_heads == 0);
  } else {
    NUMOE_CHECK(c.kv_lora_rank >= 1 && c.qk_nope_head_dim >= 1 && c.v_head_dim >= 1);
  }
  NUMOE_CHECK(c.fp8_block_rows >= 1 && c.fp8_block_cols >= 1 && c.int4_group_size == 32);
  for (const int32_t token : c.eos_token_ids) NUMOE_CHECK(token >= 0 && token < c.vocab_size) << token;
  NUMOE_CHECK(c.bos_token_id >= -1 && c.bos_token_id < c.vocab_size) << c.bos_token_id;
  CheckRope(c.rope);
}

}  // namespace numoe
