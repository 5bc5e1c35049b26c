#include "coordinator/device/cuda/kernels/attention_plan.h"
#include "coordinator/device/cuda/words.h"

namespace numoe::cuda {
namespace {

constexpr int kPlanThreads = 128;
constexpr int kMergeWarps = 8;
constexpr int kMergeWidthMax = 512;

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

// A block for each row and head; its warps take pieces in turn, four columns a lane at a time, and are added
// up in order. Limit: bytes, most of which are still in the second-level cache.
__global__ void __launch_bounds__(kMergeWarps * 32) MergePartsKernel(MergePartsArgs args) {
  NUMOE_SHARED(float, shared, [kMergeWarps][kMergeWidthMax]);
  NUMOE_SHARED(float, totals, [kMergeWarps]);
  const int row = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first = args.lists.row_first[row];
  const int last = args.lists.row_first[row + 1];
  if (last - first == 1) return;
  Bf16* const out = args.out + (static_cast<int64_t>(row) * args.heads + head) * args.width;

  float maximum = -INFINITY;
  for (int piece = first + lane; piece < last; piece += 32) {
    maximum = fmaxf(maximum, args.parts.maxima[static_cast<int64_t>(piece) * args.heads + head]);
  }
  for (int other = 16; other > 0; other /= 2) maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, other));

  constexpr int kLaneQuads = kMergeWidthMax / 128;
  float4 sums[kLaneQuads] = {};
  float total = 0;
#pragma unroll 1
  for (int piece = first + warp; piece < last; piece += kMergeWarps) {
    const int64_t at = static_cast<int64_t>(piece) * args.heads + head;
    const float weight = FastExp2(args.parts.maxima[at] - maximum);
    total += weight * args.parts.totals[at];
    const float4* const part = reinterpret_cast<const float4*>(args.parts.sums + at * args.width);
#pragma unroll
    for (int i = 0; i < kLaneQuads; ++i) {
      if (i * 32 + lane >= args.width / 4) continue;
      const float4 v = part[i * 32 + lane];
      sums[i].x += weight * v.x;
      sums[i].y += weight * v.y;
      sums[i].z += weight * v.z;
      sums[i].w += weight * v.w;
    }
  }
#pragma unroll
  for (int i = 0; i < kLaneQuads; ++i) reinterpret_cast<float4*>(shared[warp])[i * 32 + lane] = sums[i];
  if (lane == 0) totals[warp] = total;
  __syncthreads();
  total = 0;
  for (int w = 0; w < kMergeWarps; ++w) total += totals[w];
  const float inverse = total > 0 ? 1.0f / total : 0.0f;
  for (int column = static_cast<int>(threadIdx.x); column < args.width; column += kMergeWarps * 32) {
    float sum = 0;
    for (int w = 0; w < kMergeWarps; ++w) sum += shared[w][column];
    out[column] = ToBf16(sum * inverse);
  }
}

}  // namespace

void LaunchPlanPieces(const PlanPiecesArgs& args, Stream stream) {
  NUMOE_LAUNCH(PlanPiecesKernel, (LaunchShape{dim3(1), dim3(kPlanThreads)}), stream, args);
}

void LaunchMergeParts(const MergePartsArgs& args, Stream stream) {
  NUMOE_LAUNCH(MergePartsKernel, (LaunchShape{dim3(args.shape.rows, args.heads), dim3(kMergeWarps * 32)}),
               stream, args);
}

}  // namespace numoe::cuda
