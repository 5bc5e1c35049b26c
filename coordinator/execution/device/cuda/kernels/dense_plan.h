// How a product is cut into blocks: a pure function of its shape, printable, obeyed by LaunchGemm.
//
// Few tokens are bound by the weights' bytes: every multiprocessor needs bytes in flight, so where the
// outputs alone do not fill the card the inputs are split. Many tokens are bound by the tensor cores: a
// weight should be decoded once for as many tokens as registers hold sums for, 128. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "coordinator/execution/device/cuda/kernels/dense_layout.h"

namespace numoe::execution::cuda {

inline constexpr int kTokensPerTile = 8;   // columns of one mma
inline constexpr int kTokenTilesMax = 16;  // 2 x 16 x 4 sums are 128 of a thread's 255 registers
inline constexpr int kGemmTargetsMax = 4;  // of one launch
inline constexpr int kGemmSplitsMax = 32;  // bounds what the last block adds up
inline constexpr int kSplitStepsMin = 4;   // fewer than there are stages fill no pipeline
inline constexpr size_t kPartialBytesMax = size_t{64} << 20;
inline constexpr int kGridRowsMax = 65535;  // CUDA's limit of grid y

/// What PlanGemm looks at.
struct GemmShape {
  int panels[kGemmTargetsMax] = {};  // of each target
  int target_count = 1;
  int cols = 0;
  int tokens = 1;       // rows of x; with a list of work: the rows that one matrix is likely to meet
  int groups = 1;       // attention heads
  int work_max = 0;     // with a list of work: its longest, in pieces of 8 * token_tiles rows; else 0
  int work_likely = 0;  // and its likely length
  int multiprocessors = 132;
  bool exact = false;  // splits depend on the matrices alone, so a token's bits do not depend on the batch
};

struct GemmPlan {
  int token_tiles = 1;        // 1, 2, 4, 8 or 16: a block has 8 times as many tokens
  int warps = 4;              // panels a block
  int splits = 1;             // of the inputs
  int row_blocks = 1;         // grid x
  int pieces = 1;             // of tokens, times groups
  int pieces_per_launch = 1;  // grid y; with splits as many as kPartialBytesMax has room for

  int tokens() const { return token_tiles * kTokensPerTile; }
  int arrivals() const { return splits > 1 ? row_blocks * pieces_per_launch : 0; }
  /// Of one block's sums.
  size_t block_bytes() const { return sizeof(float) * static_cast<size_t>(warps * kPanelOutputs * tokens()); }
  size_t partial_bytes() const {
    return block_bytes() * static_cast<size_t>(arrivals()) * static_cast<size_t>(splits);
  }
  bool operator==(const GemmPlan&) const = default;
};

GemmPlan PlanGemm(const GemmShape& shape);
/// Who multiplies a dense matrix: the product kernel, or cuBLASLt on a BF16 expansion of it (dense_expand.h).
/// On sm_80 to sm_89 both are mma.sync and the kernel saves the expansion. On sm_90 mma.sync stops at some 62
/// % of what wgmma reaches; if cuBLASLt gets 80 %, a weight gains 2 tokens (1 / 0.62 - 1 / 0.8) / 989 Tflop/s
/// and costs 4 bytes / 3.35 TB/s more, so it pays from 1630 tokens on, here rounded up for the second launch.
/// With `exact` always the kernel: the library chooses its own by the number of tokens.
enum class DenseWay : uint8_t { kTiles, kExpand };
inline constexpr int kExpandTokensMin = 2048;
inline constexpr int kWgmmaArchitecture = 90;
DenseWay ChooseDenseWay(int tokens, int architecture, bool exact);
/// "16 tokens x 128 outputs, 3 splits, 56 x 1 blocks".
std::string Describe(const GemmPlan& plan);

}  // namespace numoe::execution::cuda
