// RoutedCall: one layer's routed work of a step, in device memory.
//
// What the exchanges hand to the workers and what the device's own experts are computed from. Addresses stay
// valid for the step. Owns nothing.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "coordinator/execution/device/cuda/expert_products.h"

namespace numoe::execution::cuda {

/// By rows of the bucket.
struct RoutedCall {
  LayerId layer = 0;
  int first = 0;   // row of the step
  int rows = 0;    // of the bucket
  int tokens = 0;  // without padding
  int hidden_size = 0;
  int experts_per_token = 0;
  int deferred_experts = 0;  // the last places of every row
  bool exact = false;
  const Bf16* hidden = nullptr;
  const ExpertId* experts = nullptr;
  const float* weights = nullptr;

  ExpertsCall products() const {
    return {.layer = layer,
            .rows = rows,
            .exact = exact,
            .hidden = hidden,
            .experts = experts,
            .weights = weights};
  }
};

}  // namespace numoe::execution::cuda
