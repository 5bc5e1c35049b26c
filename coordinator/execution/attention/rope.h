// Rotation frequencies of rotary position embedding, with YaRN for contexts beyond the training length.
//
// Pure planning: the device rotates with what this returns. Computed in double precision; angles reach
// 262143, so tables in less than fp32 would be wrong. Source: YaRN, https://arxiv.org/abs/2309.00071, in the
// static form that DeepSeek-V3 and Kimi-K2 checkpoints are trained with (applied at every position).
#pragma once

#include <vector>

#include "common/weights/model_config.h"

namespace numoe::execution {

struct RopeFrequencies {
  std::vector<float> inverse;  // [dim / 2], radians per position
  float multiplier = 1.0f;     // of cos and sin
};

/// REQUIRES: config.dim even and positive; with YaRN, factor >= 1 and original_max_position_embeddings > 0.
RopeFrequencies PlanRope(const RopeConfig& config);

/// Factor of the softmax scale that YaRN with mscale_all_dim asks for: m * m (1 without YaRN).
double YarnSoftmaxFactor(const RopeConfig& config);

}  // namespace numoe::execution
