// PlanRope: the frequencies of rotary position embedding, with YaRN for contexts beyond the training length.
//
// Pure functions; the device rotates with their results. They compute in double precision. Angles reach
// 262143, so tables with less precision than fp32 would be wrong. Source: YaRN,
// https://arxiv.org/abs/2309.00071, in the static form with which DeepSeek-V3 and Kimi-K2 checkpoints are
// trained (applied at every position).
#pragma once

#include <vector>

#include "common/weights/model_config.h"

namespace numoe::execution {

struct RopeFrequencies {
  std::vector<float> inverse;  // [dim / 2], radians per position
  float multiplier = 1.0f;     // cos and sin are multiplied by it
};

/// Returns the frequencies. REQUIRES: config.dim is even and positive; with YaRN, factor >= 1 and
/// original_max_position_embeddings > 0.
RopeFrequencies PlanRope(const RopeConfig& config);

/// Returns the factor of the softmax scale that YaRN with mscale_all_dim requires: m * m (1 without YaRN).
double YarnSoftmaxFactor(const RopeConfig& config);

}  // namespace numoe::execution
