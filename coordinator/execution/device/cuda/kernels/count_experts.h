// Counts how often each expert is selected; hot experts are chosen by these counts.
//
// Each selected expert adds one to an integer, so the order does not matter; padding rows select -1 and are
// not counted.
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

struct CountExpertsArgs {
  const int32_t* experts = nullptr;  // [entries]
  int entries = 0;
  uint32_t* counts = nullptr;  // [experts of the layer]
};
void LaunchCountExperts(const CountExpertsArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
