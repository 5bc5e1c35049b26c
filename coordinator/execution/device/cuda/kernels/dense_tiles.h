// Products of few or many tokens with matrices in the device's layout: the only algorithm for dense matrices,
// per-head matrices and experts.
//
// out[token, o] = sum_k W[o, k] x[token, k]; for a gated pair silu(gate) * up. A block computes `warps`
// panels of 32 outputs (of a target) for 8 * token_tiles tokens and one split of the inputs; each of its
// warps computes one panel, so a weight is read from memory and decoded exactly once per 8 * token_tiles
// tokens. Codes are exact in BF16. With up to 64 tokens per block, fp32 sums are multiplied by scales, so the
// error of every format is that of BF16 activations and of the sums:
//   sum = 0; for each split: sum += (for each step of 64 inputs: for each 32 of it: scale * mma sums)
// With 128 tokens that would cost as much as the products. Therefore weights are code * scale rounded to
// BF16, which changes them by up to 2^-8 of themselves, as in the workers' tiles for many tokens. With one
// split, the blocks write the outputs; with more, each block stores its sums in `partials`, and the last
// block adds them in the order of the splits, so no result depends on scheduling. A token's result depends on
// the splits and on whether blocks have 128 tokens, but not on the other tokens. All pointers are device
// memory; rows of x are 16-byte aligned, and output rows should be as well, because they are then stored
// faster.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/dense_layout.h"
#include "coordinator/execution/device/cuda/kernels/dense_plan.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

enum class GemmOutput : uint8_t { kBf16, kFp32, kAddFp32 };  // kAddFp32: the residual stream

/// One matrix of a launch and the place of its products. The output of a gated pair is kBf16.
struct GemmTarget {
  DeviceMatrix matrix;
  void* out = nullptr;           // first token's first channel, Bf16 or float according to `output`
  int64_t out_stride = 0;        // elements from one token to the next
  int64_t out_group_stride = 0;  // elements from one group's window to the next
  GemmOutput output = GemmOutput::kBf16;
};

/// Tokens that are routed to one expert: rows [first, first + count) of the sorted order, count <= 8 *
/// token_tiles.
struct GemmWork {
  int32_t slot;  // the index of the matrix, counted from target.matrix.data
  int32_t first;
  int32_t count;
  int32_t unused;
};
static_assert(sizeof(GemmWork) == 16);

struct GemmArgs {
  GemmTarget targets[kGemmTargetsMax];  // with the same format and number of inputs, and all gated or none
  int target_count = 0;
  const Bf16* x = nullptr;
  int64_t x_stride = 0;             // elements, a multiple of 8
  int64_t x_group_stride = 0;       // elements, a multiple of 8
  const int32_t* gather = nullptr;  // row r reads row gather[r] of x, or row r if null
  int rows = 0;                     // rows of x; unused with `work`
  int groups = 1;                   // attention heads: group g uses the matrix g * group_bytes further
  size_t group_bytes = 0;           // also from one slot of `work` to the next
  const GemmWork* work = nullptr;   // if null, every 8 * token_tiles rows are one piece of work
  const int32_t* work_count = nullptr;
  GemmPlan plan;
  float* partials = nullptr;  // plan.partial_bytes() bytes; null if the plan has one split
  uint32_t* arrivals =
      nullptr;  // [plan.arrivals], zero before the first launch; every launch leaves them zero
};

/// REQUIRES: `plan` is the result of PlanGemm for this shape. With a list of work, pieces beyond *work_count
/// are skipped.
void LaunchGemm(const GemmArgs& args, Stream stream);

// One function per format, each in a separate source file; LaunchGemm checks the arguments and calls one of
// them.
void LaunchGemmBf16(const GemmArgs& args, Stream stream);
void LaunchGemmFp8(const GemmArgs& args, Stream stream);
void LaunchGemmInt4(const GemmArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
