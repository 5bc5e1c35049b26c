// RoutedCall: one layer's routed work of a step, in device memory.
//
// The exchanges send it to the workers, and the device's own experts are computed from it. Addresses stay
// valid for the step. Owns nothing.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "coordinator/execution/device/cuda/expert_products.h"

namespace numoe::execution::cuda {

/// The arrays have the rows of the bucket.
struct RoutedCall {
  LayerId layer = 0;
  int first = 0;   // first row, in the step
  int rows = 0;    // of the bucket
  int tokens = 0;  // without padding
  int hidden_size = 0;
  int experts_per_token = 0;
  int deferred_experts = 0;  // the last selected experts of every row
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
