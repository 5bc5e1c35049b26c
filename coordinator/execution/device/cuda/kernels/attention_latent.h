// Decode attention of absorbed MLA (https://arxiv.org/abs/2405.04434) over the paged cache, on tensor cores.
//
// For head h of a row: out_h = sum over positions p of softmax(scale * query_h . key_p) * key_p[0, latent),
// where query_h = [W_UK^T q_nope, rotated q_rope] and key_p is the cache's row: one key for all heads, so
// attention is a product of [heads, 576] with each row of 576 values, then of [heads, rows] with the rows'
// first 512.
//
// The limit. A row is 1,152 bytes in BF16 and 64 heads make 64 * (576 + 512) * 2 = 139,264 flops of it: 121
// flops a byte. An H100 has 3,350 GB/s and some 620 Tflop/s through mma.sync (about five eighths of wgmma's
// 989): 185 flops a byte, so 64 heads are bound by bandwidth, with tensor cores two thirds busy, and 128
// heads by arithmetic. Per multiprocessor and row, in clocks at 1.7 GHz: memory 77 (15 bytes a clock), mma
// 55, shared memory (128 bytes a clock) 9 to arrive, 54 for products with the query (each warp multiplies 32
// heads by 16 keys: two pieces of query and one of keys, 12 clocks, for four mma), 8 + 8 for the sum of rows
// and its weights (each warp all heads by latent / 8 columns, so that a row is read once): 79. Shared memory
// is as tight as HBM: that is why the two products are cut among the warps in different ways, at the price of
// two barriers a tile.
//   A block takes all its heads' sums in registers: 64 x 512 fp32 = 128 of a thread's 255 registers on 256
// threads (236 in all, none spilled), one block a multiprocessor. Shared memory, 64 heads: query 73,728 + two
// stages of 64 keys 147,456 + weights 8,192 bytes of the 232,448 that sm_90 gives; the stage in flight is 73
// KB, five times what 15 bytes a clock need at a latency of 1,000 clocks. sm_80 (166,912) takes tiles of 32
// keys, sm_86 and sm_89 (101,376) 32 heads and 16 keys in three stages. FP8 rows arrive as they are and are
// widened to a BF16 tile, of 32 keys on sm_90 in three stages.
//   A piece that is not a whole row leaves 64 x 512 fp32, as many bytes as 114 rows of the cache: 5 % of what
// is read at batch 32 x 8k, where 128 workers have a quarter of a row each.
//   What wgmma (sm_90a) would add: both operands of the first product from shared memory without passing
// registers (its 54 clocks become 18) and 1.6 times the arithmetic: needed for more than about 85 % of an
// H100's bandwidth, for FP8 (43 clocks of memory a row, less than mma's 55), and on an H200.
//
// Heads beyond a block's are other blocks (grid y) on the same pieces at the same time, and so are several
// new tokens of a sequence: the first to read a row brings it to the second-level cache for the others.
// Planned by attention_plan.h; rows with several pieces are finished by LaunchMergeParts.
#pragma once

#include "coordinator/execution/device/cuda/kernels/attention_plan.h"
#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "coordinator/execution/device/cuda/kernels/step_tables.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

struct LatentWidths {
  int latent = 512;
  int rope = 64;
};

/// How a device's blocks are made: which instance of the kernel, and what PlanDecode needs to know of it.
struct LatentKernelShape {
  LatentWidths widths;
  bool fp8 = false;
  int heads = 0;   // of a block
  int keys = 0;    // of a tile
  int stages = 0;  // tiles in shared memory, one being worked on
  int64_t shared_bytes = 0;
};

/// The instance for a device whose blocks may have `shared_bytes_max` of shared memory. Widths that are not
/// among 512 + 64, 128 + 32, 64 + 16 and 64 + 32 give a shape of 0 heads: there is no kernel for them.
LatentKernelShape PlanLatentKernel(LatentWidths widths, bool fp8, int64_t shared_bytes_max);

struct LatentDecodeArgs {
  LatentKernelShape kernel;
  CacheLayer cache;   // 1 head of keys, latent + rope wide; FP8 where kernel.fp8
  StepTables tables;  // sequences, block_tables; lengths are in the pieces
  DecodeShape shape;  // of tile kernel.keys
  DecodeLists lists;  // made by LaunchPlanPieces
  DecodeParts parts;  // [pieces_max, heads, latent]
  int heads = 0;
  float scale = 1;
  const Bf16* query = nullptr;  // [rows, heads, latent + rope], 16-byte aligned
  Bf16* out = nullptr;          // [rows, heads, latent]
};
/// The rows that are one piece, and the partial results of the others.
void LaunchLatentDecode(const LatentDecodeArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
