// Products of few or many tokens with matrices in the device's layout: the one algorithm behind dense
// matrices, per-head matrices and experts.
//
// out[token, o] = sum_k W[o, k] x[token, k]; of a gated pair silu(gate) * up. A block takes `warps` panels of
// 32 outputs (of a target), 8 * token_tiles tokens and a split of the inputs; each of its warps one panel, so
// that a weight is read from memory and decoded exactly once per 8 * token_tiles tokens. Codes are exact in
// BF16. Up to 64 tokens a block, scales multiply fp32 sums, so every format's error is that of the
// activations' BF16 and of the sums:
//   sum = 0; for each split: sum += (for each step of 64 inputs: for each 32 of it: scale * mma sums)
// At 128 tokens that would cost as much as the products, and weights are code * scale rounded to BF16, by up
// to 2^-8 of themselves, as in the workers' tiles for many tokens. With one split the blocks write; with
// more, each leaves its sums in `partials` and the block that comes last adds them in the splits' order: no
// result depends on scheduling. A token's result depends on the splits and on whether blocks have 128 tokens,
// not on the tokens beside it. Device memory throughout; x rows and, for the fast way out, output rows are
// 16-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/dense_layout.h"
#include "coordinator/execution/device/cuda/kernels/dense_plan.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

enum class GemmOutput : uint8_t { kBf16, kFp32, kAddFp32 };  // kAddFp32: the residual stream

/// One matrix of a launch and where its products go. A gated pair's output is kBf16.
struct GemmTarget {
  DeviceMatrix matrix;
  void* out = nullptr;           // first token's first channel, Bf16 or float as `output` says
  int64_t out_stride = 0;        // elements from one token to the next
  int64_t out_group_stride = 0;  // elements from one group's window to the next
  GemmOutput output = GemmOutput::kBf16;
};

/// Tokens that meet one expert: rows [first, first + count) of the sorted order, count <= 8 * token_tiles.
struct GemmWork {
  int32_t slot;  // which of the matrices behind target.matrix.data
  int32_t first;
  int32_t count;
  int32_t unused;
};
static_assert(sizeof(GemmWork) == 16);

struct GemmArgs {
  GemmTarget targets[kGemmTargetsMax];  // of one format, one width and all gated or none
  int target_count = 0;
  const Bf16* x = nullptr;
  int64_t x_stride = 0;             // elements, a multiple of 8
  int64_t x_group_stride = 0;       // elements, a multiple of 8
  const int32_t* gather = nullptr;  // row r reads x row gather[r]; null: r
  int rows = 0;                     // of x, without `work`
  int groups = 1;                   // group g takes the matrix `group_bytes` further: attention heads
  size_t group_bytes = 0;           // also from one slot of `work` to the next
  const GemmWork* work = nullptr;   // null: one piece of work for every 8 * token_tiles rows
  const int32_t* work_count = nullptr;
  GemmPlan plan;
  float* partials = nullptr;  // plan.partial_bytes(); null without splits
  uint32_t* arrivals =
      nullptr;  // [plan.arrivals], zero before the first launch; every launch leaves them zero
};

/// `plan` is PlanGemm's for this very shape. With a list of work, pieces beyond *work_count are skipped.
void LaunchGemm(const GemmArgs& args, Stream stream);

// One per format, each in a source of its own; LaunchGemm checks and picks.
void LaunchGemmBf16(const GemmArgs& args, Stream stream);
void LaunchGemmFp8(const GemmArgs& args, Stream stream);
void LaunchGemmInt4(const GemmArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
