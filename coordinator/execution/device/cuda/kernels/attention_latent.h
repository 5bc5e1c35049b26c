// Decode attention of absorbed MLA (https://arxiv.org/abs/2405.04434) over the paged cache, on tensor cores.
//
// For head h of a row: out_h = sum over positions p of softmax(scale * query_h . key_p) * key_p[0, latent),
// where query_h = [W_UK^T q_nope, rotated q_rope] and key_p is the cache's row: one key for all heads, so
// attention is a product of [heads, 576] with each row of 576 values, then of [heads, rows] with the rows'
// first 512.
//
// Limits. A row is 1,152 bytes in BF16, with which 64 heads compute 64 * (576 + 512) * 2 = 139,264 flops: 121
// flops per byte. An H100 has 3,350 GB/s and about 620 Tflop/s through mma.sync (about five eighths of
// wgmma's 989): 185 flops per byte. So 64 heads are limited by memory bandwidth, with tensor cores two thirds
// busy, and 128 heads by arithmetic. Per multiprocessor and row, in clocks at 1.7 GHz: memory 77 (15 bytes
// per clock); mma 55; shared memory (128 bytes per clock) 79, namely 9 for the arriving bytes, 54 for the
// products with the query (each warp multiplies 32 heads by 16 keys: two pieces of query and one of keys, 12
// clocks, for four mma), and 8 + 8 for the sum of rows and its weights (each warp computes all heads by
// latent / 8 columns, so that a row is read once). Shared memory is as much a limit as HBM: therefore the two
// products are divided among the warps in different ways, although that costs two barriers per tile.
//   A block holds the sums of all its heads in registers: 64 x 512 fp32 = 128 of a thread's 255 registers
// with 256 threads (236 in all, none spilled), so there is one block per multiprocessor. Shared memory with
// 64 heads: query 73,728 + two stages of 64 keys 147,456 + weights 8,192 bytes of the 232,448 that sm_90 has;
// the stage in flight is 73 KB, five times what 15 bytes per clock need at a latency of 1,000 clocks. sm_80
// (166,912) uses tiles of 32 keys, sm_86 and sm_89 (101,376) use 32 heads and 16 keys in three stages. FP8
// rows are copied unchanged and then widened to a BF16 tile, on sm_90 of 32 keys in three stages.
//   A piece that is not a whole row writes 64 x 512 fp32, as many bytes as 114 rows of the cache: 5 % of the
// bytes that are read at batch 32 x 8k, where each of 128 workers has a quarter of a row.
//   With wgmma (sm_90a) both operands of the first product would come from shared memory without passing
// through registers (its 54 clocks become 18), and the peak would be 1.6 times as high. That is needed
// to reach more than about 85 % of an H100's bandwidth, for FP8 (43 clocks of memory per row, less than mma's
// 55), and on an H200.
//
// Heads beyond those of a block are computed by other blocks (grid y) from the same pieces at the same time,
// and so are several new tokens of a sequence: the first block that reads a row brings it to the second-level
// cache for the others. The work is planned by attention_plan.h; LaunchMergeParts finishes rows with several
// pieces.
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

/// The shape of a device's blocks: it selects the instance of the kernel and is an input of PlanDecode.
struct LatentKernelShape {
  LatentWidths widths;
  bool fp8 = false;
  int heads = 0;   // per block
  int keys = 0;    // per tile
  int stages = 0;  // tiles in shared memory, one of which is being processed
  int64_t shared_bytes = 0;
};

/// Returns the instance for a device whose blocks may have `shared_bytes_max` bytes of shared memory. For
/// widths other than 512 + 64, 128 + 32, 64 + 16 and 64 + 32 there is no kernel, and the shape has 0 heads.
LatentKernelShape PlanLatentKernel(LatentWidths widths, bool fp8, int64_t shared_bytes_max);

struct LatentDecodeArgs {
  LatentKernelShape kernel;
  CacheLayer cache;   // 1 head of keys with latent + rope values; FP8 if kernel.fp8
  StepTables tables;  // only sequences and block_tables are used; lengths are in the pieces
  DecodeShape shape;  // planned with tile kernel.keys
  DecodeLists lists;  // made by LaunchPlanPieces
  DecodeParts parts;  // [pieces_max, heads, latent]
  int heads = 0;
  float scale = 1;
  const Bf16* query = nullptr;  // [rows, heads, latent + rope], 16-byte aligned
  Bf16* out = nullptr;          // [rows, heads, latent]
};
/// Computes the rows with a single piece, and the partial results of the others.
void LaunchLatentDecode(const LatentDecodeArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
