#include "coordinator/device/cuda/kernels/attention_plan.h"
#include "coordinator/device/cuda/words.h"

namespace numoe::cuda {
namespace {

constexpr int kPlanThreads = 128;
constexpr int kMergeWarps = 8;
constexpr int kMergeColumns = 128;  // of a block

// One thread walks over rows and workers: at most 1024 + 2 * workers short turns once a step, a few
// microseconds beside some 60 layers that obey the lists.
__device__ void MakeLists(const PlanPiecesArgs& args, const int32_t* lengths, int64_t tiles) {
  const DecodeShape& shape = args.shape;
  const DecodeLists& lists = args.lists;
  const int64_t share = (tiles + shape.workers - 1) / shape.workers;
  int worker = 0;
  int pieces = 0;
  int64_t used = 0;  // tiles of the worker
  lists.worker_first[0] = 0;
  for (int row = 0; row < shape.rows; ++row) {
    lists.row_first[row] = pieces;
    const int row_tiles = (lengths[row] + shape.tile - 1) / shape.tile;
    for (int tile = 0; tile < row_tiles;) {
      const int64_t room = shape.piece_tiles > 0 ? shape.piece_tiles : share - used;
      const int taken = row_tiles - tile < room ? row_tiles - tile : static_cast<int>(room);
      const int end = (tile + taken) * shape.tile;
      lists.pieces[pieces++] = {row, tile * shape.tile, end < lengths[row] ? end : lengths[row]};
      tile += taken;
      used += taken;
      // Exact pieces are not cut, so a worker's share is filled up to the nearest piece.
      while (worker + 1 < shape.workers && used >= share) {
        lists.worker_first[++worker] = pieces;
        used -= share;
      }
    }
  }
  lists.row_first[shape.rows] = pieces;
  while (worker < shape.workers) lists.worker_first[++worker] = pieces;
}

__global__ void __launch_bounds__(kPlanThreads) PlanPiecesKernel(PlanPiecesArgs args) {
  NUMOE_SHARED(int32_t, lengths, [kDecodeRowsMax]);
  for (int row = static_cast<int>(threadIdx.x); row < args.shape.rows; row += kPlanThreads) {
    lengths[row] = args.positions[row] + 1;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  int64_t tiles = 0;
  for (int row = 0; row < args.shape.rows; ++row) {
    tiles += (lengths[row] + args.shape.tile - 1) / args.shape.tile;
  }
  MakeLists(args, lengths, tiles);
}

// A block for each row, head and 128 columns; its warps take pieces in turn, four columns a lane, and are
// added up in order. Limit: at one row of a long context, latency (132 pieces make 17 of a warp, four loads
// of which are in flight); otherwise bytes, most of which are still in the second-level cache.
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

}  // namespace numoe::cuda
