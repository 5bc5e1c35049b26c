// Attention of many new tokens of a sequence at once: causal, with any lengths, on tensor cores. It is used
// for GQA over the paged cache, and for MLA over keys and values that were expanded from the latents.
//
// The loop is that of FlashAttention-2 (https://arxiv.org/abs/2307.08691): a block has 128 rows of one head,
// 32 for each of its 4 warps, and processes the keys in tiles of 64: scores, online softmax in registers,
// sums. There is one buffer for keys and one for values: values arrive during the first product, the next
// keys during the second, and two blocks share a multiprocessor (MLA: 88 KB of shared memory each), so that
// one multiplies while the other waits.
//
// The kernel is limited by arithmetic. A tile of MLA's 192 + 128 channels is 1,280 mma of 4,096 flops: 2,064
// clocks at mma.sync's 2,540 flops per clock (sm_90: five eighths of wgmma's 4,096; sm_80 has only mma.sync).
// Shared memory needs 1,664 clocks for its 416 ldmatrix (a warp has 32 rows, so each piece of keys or values
// is used by two mma pairs). So mma.sync's ceiling on an H100 is about 62 % of the matrix peak;
// FlashAttention-2 measures 35 to 40 % with this scheme. More would need wgmma (FlashAttention-3 published 75
// % at width 128). Of 255 registers, sums need 128 and scores 64; a wider tile would spill.
//
// MLA prompts that are longer than the expansion's scratch need several passes: a pass expands a stretch of
// positions for all heads, and the tasks of the pass attend to it; between passes a task's rows store sums,
// maxima and totals in `state`. PlanPrefill (pure) divides a step into such passes; in a pass every run
// attends to one stretch. For GQA the whole context is one stretch, and there is one pass.
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
  int position = 0;  // position of the first row
};

/// A block's work for each head; stored in device memory.
struct PrefillTask {
  int32_t row;  // first of `rows` rows of the step
  int32_t rows;
  int32_t sequence;
  int32_t position;   // position of the first row
  int32_t key_begin;  // the positions to attend to are [key_begin, key_end); a row at p attends up to p
  int32_t key_end;
  int32_t key_row;  // row of the expanded keys and values that belongs to position key_begin
  int32_t first;    // not 0: these rows have no results of an earlier pass
  int32_t last;     // not 0: this pass finishes these rows; 0: it stores them in the state
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
  std::vector<PrefillTask> tasks;  // the longest first
  int key_rows = 0;                // expanded rows
};
/// `key_rows_max` is the number of rows in the expansion's scratch; with 0 nothing is expanded, and there is
/// one pass.
std::vector<PrefillPass> PlanPrefill(const std::vector<PrefillRun>& runs, int key_rows_max);

/// The sizes from which ExpandsLatents counts the multiplications of one head for a run in both forms of MLA,
/// as coordinator/execution/device/cpu/latent_plan.h does. A run is expanded if that needs fewer
/// multiplications and the run has at least kExpandedRowsMin rows.
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
  float* maxima = nullptr;  // [rows, heads], as base-2 exponents
  float* totals = nullptr;  // [rows, heads]
};

/// The common arguments of both kinds. Rows that no task names are not changed.
struct PrefillArgs {
  const PrefillTask* tasks = nullptr;  // [task_count], device
  int task_count = 0;
  int heads = 0;
  int key_width = 0;
  int value_width = 0;
  float scale = 1;
  const Bf16* query = nullptr;  // [rows, heads, key_width], 16-byte aligned
  Bf16* out = nullptr;          // [rows, heads, value_width]
  PrefillState state;           // unused if every task is both first and last
};

/// A key is [nope part of its head | rope part of all heads]. Strides are in values and multiples of 8;
/// addresses are 16-byte aligned.
struct ExpandedPrefillArgs {
  PrefillArgs common;
  const Bf16* keys =
      nullptr;  // row r, head h: keys + r * key_stride + h * key_head_stride, key_width - rope values
  int64_t key_stride = 0;
  int64_t key_head_stride = 0;
  const Bf16* ropes = nullptr;  // row r: ropes + r * rope_stride
  int64_t rope_stride = 0;
  int rope_width = 0;
  const Bf16* values = nullptr;  // row r, head h: as keys
  int64_t value_stride = 0;
  int64_t value_head_stride = 0;
};
/// Whether there is a kernel: for widths (nope + rope / value) 128 + 64 / 128, 32 + 16 / 32 and 32 + 32 / 32.
bool HasExpandedPrefill(int nope, int rope, int value);
void LaunchExpandedPrefill(const ExpandedPrefillArgs& args, Stream stream);

struct PagedPrefillArgs {
  PrefillArgs common;  // key_width == value_width
  CacheLayer cache;    // each cache head is shared by the same number of query heads
  StepTables tables;   // only block_tables is used
};
/// Whether there is a kernel: for widths 32, 64, 96 and 128, BF16 and FP8.
bool HasPagedPrefill(int width);
void LaunchPagedPrefill(const PagedPrefillArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
