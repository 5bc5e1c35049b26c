// Decode attention of GQA (https://arxiv.org/abs/2305.13245) over the paged cache, on tensor cores.
//
// The query heads that share a cache head are the rows of the mma (up to 16; more are further blocks), so
// each cached row is read once for all of them. The limit is bytes: 16 heads make 32 flops a byte of BF16
// cache, where mma.sync has 185 on an H100. So what matters is that copies are always in flight: each of a
// block's 4 warps runs alone over every fourth block of 16 tokens, two stages of its own deep, without a
// barrier of the block; three blocks share a multiprocessor (registers 168, 68 KB of shared memory at width
// 128), which together keep 96 KB on their way, six times what 15 bytes a clock need at a latency of 1,000
// clocks. Warps join their sums at a piece's end. An FP8 block is widened to BF16 by its warp: eight integer
// operations a pair of values, a quarter of what the multiprocessor can do while the next bytes arrive.
//
// Planned by attention_plan.h with tile kGroupedTileKeys, a group for each cache head (and each 16 heads of
// it); rows with several pieces are finished by LaunchMergeParts.
#pragma once

#include "coordinator/execution/device/cuda/kernels/attention_plan.h"
#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "coordinator/execution/device/cuda/kernels/step_tables.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kGroupedTileKeys = 64;
inline constexpr int kGroupedHeadsMax = 16;  // of one block

/// Blocks that fit one multiprocessor: PlanDecode's workers are multiprocessors times this over groups. 0: no
/// kernel for such heads, or none that fits.
int GroupedBlocksPerMultiprocessor(int width, bool fp8, int64_t shared_bytes);

struct GroupedDecodeArgs {
  CacheLayer cache;   // keys and values of one width: 32, 64, 96 or 128
  StepTables tables;  // sequences, block_tables; lengths are in the pieces
  DecodeShape shape;  // of tile kGroupedTileKeys
  DecodeLists lists;  // made by LaunchPlanPieces
  DecodeParts parts;  // [pieces_max, heads, width]
  int heads = 0;      // a multiple of the cache's
  float scale = 1;
  const Bf16* query = nullptr;  // [rows, heads, width], 16-byte aligned
  Bf16* out = nullptr;          // [rows, heads, width]
};
/// The rows that are one piece, and the partial results of the others.
void LaunchGroupedDecode(const GroupedDecodeArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
