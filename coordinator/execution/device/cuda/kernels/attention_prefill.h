// Attention of many new tokens of a sequence at once: causal, ragged, on tensor cores. For GQA over the paged
// cache, and for MLA over keys and values that were expanded from the latents.
//
// FlashAttention-2's loop (https://arxiv.org/abs/2307.08691): a block takes 128 rows of one head, its 4 warps
// 32 rows each, and goes over the keys in tiles of 64: scores, online softmax in registers, sums. One buffer
// of keys and one of values: values arrive during the first product, the next keys during the second, and two
// blocks share a multiprocessor (MLA: 88 KB of shared memory each), so that one multiplies while the other
// waits.
//
// The limit is arithmetic. A tile of MLA's 192 + 128 channels is 1,280 mma of 4,096 flops: at mma.sync's
// 2,540 flops a clock (sm_90: five eighths of wgmma's 4,096; on sm_80 it is all there is) 2,064 clocks;
// shared memory gives its 416 ldmatrix (a warp has 32 rows, so each piece of keys or values serves two mma
// pairs) in 1,664. So mma.sync's ceiling on an H100 is about 62 % of the matrix peak, FlashAttention-2
// measures 35 to 40 % with this scheme, and wgmma (FlashAttention-3 published 75 % at width 128) is what more
// would take. Registers: sums 128, scores 64, of 255; a wider tile would spill.
//
// MLA, prompts longer than what the expansion's scratch holds: a pass expands a stretch of positions for all
// heads, and tasks of the pass attend to it; between passes a task's rows leave sums, maxima and totals in
// `state`. PlanPrefill (pure) cuts a step into such passes; every run of a pass attends one stretch. For GQA
// the whole context is one stretch, and there is one pass.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "coordinator/execution/device/cuda/kernels/step_tables.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kPrefillTaskRows = 128;

/// Consecutive rows of a step that are consecutive positions of one sequence.
struct PrefillRun {
  int row = 0;
  int rows = 0;
  int sequence = 0;
  int position = 0;  // of the first row
};

/// A block's work for each head; lies in device memory.
struct PrefillTask {
  int32_t row;  // of the step, first of `rows`
  int32_t rows;
  int32_t sequence;
  int32_t position;   // of the first row
  int32_t key_begin;  // positions to attend to; a row at p attends up to p
  int32_t key_end;
  int32_t key_row;  // of the expanded keys and values: where position key_begin's stretch begins
  int32_t first;    // not 0: no earlier pass left anything for these rows
  int32_t last;     // not 0: these rows are finished, otherwise left in the state
};

/// Positions [begin, end) of a sequence, expanded to rows `key_row` and following of the pass.
struct PrefillStretch {
  int sequence = 0;
  int begin = 0;
  int end = 0;
  int key_row = 0;
};
struct PrefillPass {
  std::vector<PrefillStretch> stretches;
  std::vector<PrefillTask> tasks;  // longest first
  int key_rows = 0;                // expanded
};
/// `key_rows_max`: what the expansion's scratch holds; 0: nothing is expanded, all is one pass.
std::vector<PrefillPass> PlanPrefill(const std::vector<PrefillRun>& runs, int key_rows_max);

/// Multiplications of one head for a run by either way of MLA, as
/// coordinator/execution/device/cpu/latent_plan.h counts them; expansion is worth it where it is fewer, from
/// kExpandedRowsMin rows on.
struct LatentRunShape {
  int nope = 128;
  int rope = 64;
  int value = 128;
  int latent = 512;
};
inline constexpr int kExpandedRowsMin = 32;
bool ExpandsLatents(const PrefillRun& run, const LatentRunShape& shape);

struct PrefillState {
  float* sums = nullptr;    // [rows, heads, value_width]
  float* maxima = nullptr;  // [rows, heads], in the base-2 exponent's unit
  float* totals = nullptr;  // [rows, heads]
};

/// Fields of both kinds. Rows that no task names are not touched.
struct PrefillArgs {
  const PrefillTask* tasks = nullptr;  // [task_count], device
  int task_count = 0;
  int heads = 0;
  int key_width = 0;
  int value_width = 0;
  float scale = 1;
  const Bf16* query = nullptr;  // [rows, heads, key_width], 16-byte aligned
  Bf16* out = nullptr;          // [rows, heads, value_width]
  PrefillState state;           // unused where every task is first and last
};

/// Keys are [nope of its head | rope of all heads]. Strides in values, multiples of 8; 16-byte aligned.
struct ExpandedPrefillArgs {
  PrefillArgs common;
  const Bf16* keys =
      nullptr;  // row r, head h: keys + r * key_stride + h * key_head_stride, key_width - rope wide
  int64_t key_stride = 0;
  int64_t key_head_stride = 0;
  const Bf16* ropes = nullptr;  // row r: ropes + r * rope_stride
  int64_t rope_stride = 0;
  int rope_width = 0;
  const Bf16* values = nullptr;  // row r, head h: as keys
  int64_t value_stride = 0;
  int64_t value_head_stride = 0;
};
/// Key + value widths 128+64/128, 32+16/32 and 32+32/32.
bool HasExpandedPrefill(int nope, int rope, int value);
void LaunchExpandedPrefill(const ExpandedPrefillArgs& args, Stream stream);

struct PagedPrefillArgs {
  PrefillArgs common;  // key_width == value_width
  CacheLayer cache;    // heads of it are shared evenly
  StepTables tables;   // block_tables
};
/// Widths 32, 64, 96 and 128, BF16 and FP8.
bool HasPagedPrefill(int width);
void LaunchPagedPrefill(const PagedPrefillArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
