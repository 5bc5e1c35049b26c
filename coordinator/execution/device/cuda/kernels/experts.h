// Computes the experts of a layer that are on the device: gate, up and down for sorted pairs.
//
// out[pair] = down (silu(gate x) * up x), where x is the pair's token, for the pairs and pieces of work of
// LaunchPermute. An expert's slot is one block of memory, with gate and up as one gated matrix followed by
// down, so an expert is exchanged by writing one block. The product kernel (dense_tiles.h) is launched twice:
// with few rows per expert it is limited by the bytes of the experts, with many by the tensor cores;
// PlanExperts plans for the likely number of rows per expert. Everything that changes from step to step is in
// device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/dense_plan.h"
#include "coordinator/execution/device/cuda/kernels/dense_tiles.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

/// The layout of an expert's matrices in its slot.
struct ExpertSlot {
  DeviceFormat up_format = DeviceFormat::kBf16;  // of gate and up
  DeviceFormat down_format = DeviceFormat::kBf16;
  int hidden = 0;  // of the model: inputs of gate and up, outputs of down; a multiple of 8
  int width = 0;   // of the expert; a multiple of 8

  size_t up_bytes() const { return DeviceBytes(up_format, width, hidden, true); }
  size_t bytes() const { return up_bytes() + DeviceBytes(down_format, hidden, width, false); }
};

struct ExpertsShape {
  ExpertSlot slot;
  int rows = 0;     // of the bucket
  int k = 0;        // experts per token
  int experts = 0;  // of the layer
  int slots = 0;    // experts on the device
  int multiprocessors = 132;
  bool exact = false;
};

/// The plan that LaunchPermute (piece_rows, work_max) and LaunchExperts execute.
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
  const int32_t* tokens = nullptr;      // output of LaunchPermute
  const GemmWork* work = nullptr;       // output of LaunchPermute
  const int32_t* work_count = nullptr;  // output of LaunchPermute
  ExpertsPlan plan;
  Bf16* activations = nullptr;   // scratch [rows * k, width]
  Bf16* outputs = nullptr;       // output [rows * k, hidden]
  float* partials = nullptr;     // scratch of plan.partial_bytes() bytes
  uint32_t* arrivals = nullptr;  // [plan.arrivals()], zero before the first launch
};
void LaunchExperts(const ExpertsArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
