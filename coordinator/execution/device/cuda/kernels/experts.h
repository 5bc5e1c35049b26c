// The experts of a layer that live on the device: sorted pairs through gate, up and down.
//
// out[pair] = down (silu(gate x) * up x), x the pair's token, for the pairs and pieces of work of
// LaunchPermute. A slot of an expert is one block of memory, gate and up as one gated matrix and down behind
// it, so that experts are swapped by writing one block. Two launches of the product kernel (dense_tiles.h):
// few rows an expert are bound by the experts' bytes, many by the tensor cores; PlanExperts decides on the
// rows that an expert is likely to meet. Everything that changes from step to step is in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/dense_plan.h"
#include "coordinator/execution/device/cuda/kernels/dense_tiles.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

/// Where an expert's matrices lie in its slot.
struct ExpertSlot {
  DeviceFormat up_format = DeviceFormat::kBf16;  // gate's, too
  DeviceFormat down_format = DeviceFormat::kBf16;
  int hidden = 0;  // of the model: inputs of gate and up, outputs of down; a multiple of 8
  int width = 0;   // of the expert; a multiple of 8

  size_t up_bytes() const { return DeviceBytes(up_format, width, hidden, true); }
  size_t bytes() const { return up_bytes() + DeviceBytes(down_format, hidden, width, false); }
};

struct ExpertsShape {
  ExpertSlot slot;
  int rows = 0;     // of the bucket
  int k = 0;        // experts a token
  int experts = 0;  // of the layer
  int slots = 0;    // of them on the device
  int multiprocessors = 132;
  bool exact = false;
};

/// Obeyed by LaunchPermute (piece_rows, work_max) and LaunchExperts.
struct ExpertsPlan {
  GemmPlan up, down;
  int piece_rows = 0;
  int work_max = 0;

  size_t partial_bytes() const {
    return up.partial_bytes() > down.partial_bytes() ? up.partial_bytes() : down.partial_bytes();
  }
  int arrivals() const { return up.arrivals() > down.arrivals() ? up.arrivals() : down.arrivals(); }
};
ExpertsPlan PlanExperts(const ExpertsShape& shape);

struct ExpertsArgs {
  ExpertSlot slot;
  const std::byte* slots = nullptr;     // [slots] of slot.bytes()
  const Bf16* x = nullptr;              // [rows, hidden], 16-byte aligned
  const int32_t* tokens = nullptr;      // LaunchPermute's
  const GemmWork* work = nullptr;       // LaunchPermute's
  const int32_t* work_count = nullptr;  // LaunchPermute's
  ExpertsPlan plan;
  Bf16* activations = nullptr;   // scratch [rows * k, width]
  Bf16* outputs = nullptr;       // out [rows * k, hidden]
  float* partials = nullptr;     // scratch of plan.partial_bytes()
  uint32_t* arrivals = nullptr;  // [plan.arrivals()], zero before the first launch
};
void LaunchExperts(const ExpertsArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
