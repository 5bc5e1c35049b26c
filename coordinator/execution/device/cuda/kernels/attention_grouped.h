// Decode attention of GQA (https://arxiv.org/abs/2305.13245) over the paged cache, on tensor cores.
//
// The query heads that share a cache head are the rows of the mma (up to 16; more heads are computed by
// further blocks), so each cached row is read once for all of them. The kernel is limited by memory
// bandwidth: 16 heads need 32 flops per byte of BF16 cache, and mma.sync on an H100 can compute 185.
// Therefore copies must always be in flight: each of a block's 4 warps processes every fourth block of 16
// tokens by itself, with two stages of its own and without barriers of the block. Three blocks share a
// multiprocessor (168 registers, 68 KB of shared memory at width 128) and together have 96 KB of copies in
// flight, six times what 15 bytes per clock need at a latency of 1,000 clocks. Warps add up their sums at the
// end of a piece. A warp widens its FP8 blocks to BF16: eight integer operations per pair of values, a
// quarter of what the multiprocessor can compute while the next bytes arrive.
//
// The work is planned by attention_plan.h with tile kGroupedTileKeys and one group for every 16 query heads
// of each cache head; LaunchMergeParts finishes rows with several pieces.
#pragma once

#include "coordinator/execution/device/cuda/kernels/attention_plan.h"
#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "coordinator/execution/device/cuda/kernels/step_tables.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kGroupedTileKeys = 64;
inline constexpr int kGroupedHeadsMax = 16;  // per block

/// Returns the number of blocks that fit on one multiprocessor (PlanDecode's workers per group are
/// multiprocessors times this, divided by groups); 0 if there is no kernel for heads of this width, or none
/// that fits.
int GroupedBlocksPerMultiprocessor(int width, bool fp8, int64_t shared_bytes);

struct GroupedDecodeArgs {
  CacheLayer cache;   // keys and values of one width: 32, 64, 96 or 128
  StepTables tables;  // only sequences and block_tables are used; lengths are in the pieces
  DecodeShape shape;  // planned with tile kGroupedTileKeys
  DecodeLists lists;  // made by LaunchPlanPieces
  DecodeParts parts;  // [pieces_max, heads, width]
  int heads = 0;      // a multiple of the number of cache heads
  float scale = 1;
  const Bf16* query = nullptr;  // [rows, heads, width], 16-byte aligned
  Bf16* out = nullptr;          // [rows, heads, width]
};
/// Computes the rows with a single piece, and the partial results of the others.
void LaunchGroupedDecode(const GroupedDecodeArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
