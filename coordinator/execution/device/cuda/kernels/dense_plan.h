// Plans how a product is divided into blocks: a pure function of its shape, printable; LaunchGemm executes
// the plan.
//
// Products of few tokens are limited by the bytes of the weights: every multiprocessor needs bytes in flight,
// so if the outputs alone do not fill the card, the inputs are split. Products of many tokens are limited by
// the tensor cores: a weight should be decoded once for as many tokens as registers can hold sums for, which
// is 128. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "coordinator/execution/device/cuda/kernels/dense_layout.h"

namespace numoe::execution::cuda {

inline constexpr int kTokensPerTile = 8;   // columns of one mma
inline constexpr int kTokenTilesMax = 16;  // 2 x 16 x 4 sums are 128 of a thread's 255 registers
inline constexpr int kGemmTargetsMax = 4;  // per launch
inline constexpr int kGemmSplitsMax = 32;  // limits the additions of the last block
inline constexpr int kSplitStepsMin = 4;   // fewer steps than stages would not fill the pipeline
inline constexpr size_t kPartialBytesMax = size_t{64} << 20;
inline constexpr int kGridRowsMax = 65535;  // CUDA's limit of grid y

/// The input of PlanGemm.
struct GemmShape {
  int panels[kGemmTargetsMax] = {};  // of each target
  int target_count = 1;
  int cols = 0;
  int tokens = 1;    // rows of x; with a list of work, the likely rows per matrix
  int groups = 1;    // attention heads
  int work_max = 0;  // the greatest length of the list of work, in pieces of 8 * token_tiles rows; 0: no list
  int work_likely = 0;  // its likely length
  int multiprocessors = 132;
  bool exact = false;  // splits depend only on the matrices, so a token's bits do not depend on the batch
};

struct GemmPlan {
  int token_tiles = 1;        // 1, 2, 4, 8 or 16; a block has 8 times as many tokens
  int warps = 4;              // panels per block
  int splits = 1;             // of the inputs
  int row_blocks = 1;         // grid x
  int pieces = 1;             // pieces of tokens, times groups
  int pieces_per_launch = 1;  // grid y; with splits, limited by kPartialBytesMax

  int tokens() const { return token_tiles * kTokensPerTile; }
  int arrivals() const { return splits > 1 ? row_blocks * pieces_per_launch : 0; }
  /// The bytes of one block's sums.
  size_t block_bytes() const { return sizeof(float) * static_cast<size_t>(warps * kPanelOutputs * tokens()); }
  size_t partial_bytes() const {
    return block_bytes() * static_cast<size_t>(arrivals()) * static_cast<size_t>(splits);
  }
  bool operator==(const GemmPlan&) const = default;
};

GemmPlan PlanGemm(const GemmShape& shape);
/// The way a dense matrix is multiplied: kTiles by the product kernel, kExpand by cuBLASLt with a BF16
/// expansion of the matrix (dense_expand.h). On sm_80 to sm_89 both use mma.sync, and the product kernel
/// needs no expansion. On sm_90 mma.sync reaches about 62 % of wgmma's peak. If cuBLASLt reaches 80 %, it
/// saves per weight 2 * tokens * (1 / 0.62 - 1 / 0.8) / 989 Tflop/s and costs 4 bytes / 3.35 TB/s, so it is
/// faster for 1630 tokens or more; the limit is rounded up because of the second launch. With `exact` always
/// kTiles, because the library chooses its kernels by the number of tokens.
enum class DenseKernel : uint8_t { kTiles, kExpand };
inline constexpr int kExpandTokensMin = 2048;
inline constexpr int kWgmmaArchitecture = 90;
DenseKernel ChooseDenseKernel(int tokens, int architecture, bool exact);
/// "16 tokens x 128 outputs, 3 splits, 56 x 1 blocks".
std::string Describe(const GemmPlan& plan);

}  // namespace numoe::execution::cuda
