#include "coordinator/execution/device/cuda/kernels/attention_plan.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kPlanThreads = 256;
constexpr int kPlanRows = kDecodeRowsMax / kPlanThreads;  // per thread
constexpr int kMergeWarps = 8;
constexpr int kMergeColumns = 128;  // per block

// Returns the sum of `value` over the threads before this one, and writes the sum over all threads to
// `total`.
__device__ __forceinline__ int SumBefore(int value, int (&warp_sums)[kPlanThreads / 32], int& total) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  int sum = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int below = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += below;
  }
  __syncthreads();  // the sums of an earlier call have been read
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int before = sum - value;
  total = 0;
  for (int w = 0; w < kPlanThreads / 32; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }
  return before;
}

// The tiles of all rows form one sequence, which is divided into shares of `share` tiles, one for each
// worker. Rows are divided where shares end. If `exact`, a row is divided at fixed multiples of piece_tiles
// instead, and a piece belongs to the worker in whose share it begins.
struct Cuts {
  int share;
  int piece_tiles;  // 0 unless exact

  __device__ __forceinline__ int PiecesOf(int first, int tiles) const {
    if (tiles == 0) return 0;
    if (piece_tiles > 0) return (tiles + piece_tiles - 1) / piece_tiles;
    return (first + tiles - 1) / share - first / share + 1;
  }
  /// Returns where piece `at` of a row that begins at `first` begins.
  __device__ __forceinline__ int BeginOf(int first, int at) const {
    if (at == 0) return first;
    return piece_tiles > 0 ? first + at * piece_tiles : (first / share + at) * share;
  }
  /// Returns how many pieces of a row that begins at `first` and never ends would begin before `end` > first.
  __device__ __forceinline__ int PiecesBefore(int first, int end) const {
    if (piece_tiles > 0) return (end - first + piece_tiles - 1) / piece_tiles;
    return (end - 1) / share - first / share + 1;
  }
};

// Runs once per step, for all layers; takes a few microseconds.
__global__ void __launch_bounds__(kPlanThreads) PlanPiecesKernel(PlanPiecesArgs args) {
  NUMOE_SHARED(int, first_tile, [kDecodeRowsMax + 1]);
  NUMOE_SHARED(int, first_piece, [kDecodeRowsMax + 1]);
  NUMOE_SHARED(int, warp_sums, [kPlanThreads / 32]);
  const DecodeShape& shape = args.shape;
  const int thread = static_cast<int>(threadIdx.x);
  // Each thread has some adjacent rows.
  int tiles[kPlanRows];
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kPlanRows; ++i) {
    const int row = thread * kPlanRows + i;
    tiles[i] = row < shape.rows ? (args.positions[row] + shape.tile) / shape.tile : 0;
    sum += tiles[i];
  }
  int all_tiles;
  int before = SumBefore(sum, warp_sums, all_tiles);
  const int share = (all_tiles + shape.workers - 1) / shape.workers;
  const Cuts cuts{share > 0 ? share : 1, shape.piece_tiles};
  int pieces[kPlanRows];
  sum = 0;
#pragma unroll
  for (int i = 0; i < kPlanRows; ++i) {
    first_tile[thread * kPlanRows + i] = before;
    pieces[i] = cuts.PiecesOf(before, tiles[i]);
    before += tiles[i];
    sum += pieces[i];
  }
  int all_pieces;
  before = SumBefore(sum, warp_sums, all_pieces);
#pragma unroll
  for (int i = 0; i < kPlanRows; ++i) {
    const int row = thread * kPlanRows + i;
    first_piece[row] = before;
    if (row < shape.rows) args.lists.row_first[row] = before;
    before += pieces[i];
  }
  if (thread == 0) {
    first_tile[kDecodeRowsMax] = all_tiles;
    first_piece[kDecodeRowsMax] = all_pieces;
    args.lists.row_first[shape.rows] = all_pieces;
  }
  __syncthreads();

  for (int row = thread / 32; row < shape.rows; row += kPlanThreads / 32) {  // a warp for each row
    const int count = first_piece[row + 1] - first_piece[row];
    const int first = first_tile[row];
    for (int at = thread % 32; at < count; at += 32) {
      const int begin = cuts.BeginOf(first, at) - first;
      const int end =
          at + 1 < count ? (cuts.BeginOf(first, at + 1) - first) * shape.tile : args.positions[row] + 1;
      args.lists.pieces[first_piece[row] + at] = {row, begin * shape.tile, end};
    }
  }
  for (int worker = thread; worker <= shape.workers; worker += kPlanThreads) {
    int64_t begin = static_cast<int64_t>(worker) * cuts.share;
    if (worker == shape.workers || begin > all_tiles) begin = all_tiles;
    int low = 0;  // the last row that begins before `begin` is in [low, high)
    int high = shape.rows;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_tile[middle] < begin ? low : high) = middle;
    }
    const int own = first_piece[low + 1] - first_piece[low];
    const int passed =
        first_tile[low] < begin ? cuts.PiecesBefore(first_tile[low], static_cast<int>(begin)) : 0;
    args.lists.worker_first[worker] = first_piece[low] + (passed < own ? passed : own);
  }
}

// There is a block for each row, head and 128 columns. Its warps process pieces in turn, with four columns
// per lane, and their sums are added in order. For one row with a long context the kernel is limited by
// latency (with 132 pieces a warp has 17, four loads of which are in flight); otherwise by bandwidth, mostly
// that of the second-level cache.
__global__ void __launch_bounds__(kMergeWarps * 32) MergePartsKernel(MergePartsArgs args) {
  NUMOE_SHARED(float4, sums, [kMergeWarps][32]);
  NUMOE_SHARED(float, totals, [kMergeWarps]);
  const int row = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int column = static_cast<int>(blockIdx.z) * kMergeColumns + lane * 4;
  const int first = args.lists.row_first[row];
  const int last = args.lists.row_first[row + 1];
  if (last - first == 1) return;

  float maximum = -INFINITY;
  for (int piece = first + lane; piece < last; piece += 32) {
    maximum = fmaxf(maximum, args.parts.maxima[static_cast<int64_t>(piece) * args.heads + head]);
  }
  for (int other = 16; other > 0; other /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, other));

  float4 sum = make_float4(0, 0, 0, 0);
  float total = 0;
#pragma unroll 4
  for (int piece = first + warp; piece < last; piece += kMergeWarps) {
    const int64_t at = static_cast<int64_t>(piece) * args.heads + head;
    const float weight = FastExp2(args.parts.maxima[at] - maximum);
    total += weight * args.parts.totals[at];
    if (column < args.width) {
      const float4 part = *reinterpret_cast<const float4*>(args.parts.sums + at * args.width + column);
      sum = make_float4(sum.x + weight * part.x, sum.y + weight * part.y, sum.z + weight * part.z,
                        sum.w + weight * part.w);
    }
  }
  sums[warp][lane] = sum;
  if (lane == 0) totals[warp] = total;
  __syncthreads();
  if (warp != 0 || column >= args.width) return;
  for (int w = 1; w < kMergeWarps; ++w) {
    const float4 part = sums[w][lane];
    sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
    total += totals[w];
  }
  const float inverse = total > 0 ? 1.0f / total : 0.0f;
  Bf16* const out = args.out + (static_cast<int64_t>(row) * args.heads + head) * args.width + column;
  *reinterpret_cast<uint2*>(out) =
      make_uint2(PackBf16(sum.x * inverse, sum.y * inverse), PackBf16(sum.z * inverse, sum.w * inverse));
}

}  // namespace

void LaunchPlanPieces(const PlanPiecesArgs& args, Stream stream) {
  NUMOE_LAUNCH(PlanPiecesKernel, (LaunchShape{dim3(1), dim3(kPlanThreads)}), stream, args);
}

void LaunchMergeParts(const MergePartsArgs& args, Stream stream) {
  const dim3 blocks(args.shape.rows, args.heads, (args.width + kMergeColumns - 1) / kMergeColumns);
  NUMOE_LAUNCH(MergePartsKernel, (LaunchShape{blocks, dim3(kMergeWarps * 32)}), stream, args);
}

}  // namespace numoe::execution::cuda
