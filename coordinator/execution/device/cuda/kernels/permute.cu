#include "coordinator/execution/device/cuda/kernels/permute.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kWarps = kPermuteThreads / 32;
constexpr int kCombineThreads = 128;

// Counts of a block's pairs by warp and slot: first the pairs of each warp, then those of all warps before
// it.
using WarpCounts = uint16_t[kWarps][kSlotsMax];

struct Pair {
  int index;  // token * k + j
  int slot;   // -1 if the expert has none
  int rank;   // among the block's pairs of the slot
};

__device__ __forceinline__ int SlotOf(const PermuteArgs& args, int pair) {
  if (pair >= args.rows * args.k) return -1;
  const int expert = args.experts[pair];
  return expert < 0 ? -1 : args.slots[expert];
}

// Ranks pairs by counting: pairs of the same slot are ordered by warp, and within a warp by lane. Afterwards
// `counts` contains prefix sums, and `total` of thread s is the block's number of pairs of slot s.
__device__ __forceinline__ Pair RankInBlock(const PermuteArgs& args, WarpCounts& counts, int& total) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  for (int i = thread; i < kWarps * kSlotsMax / 2; i += kPermuteThreads)
    reinterpret_cast<uint32_t*>(counts)[i] = 0;
  Pair pair;
  pair.index = static_cast<int>(blockIdx.x) * kPermuteThreads + thread;
  pair.slot = SlotOf(args, pair.index);
  const unsigned equal = __match_any_sync(~0u, pair.slot);
  pair.rank = __popc(equal & ((1u << lane) - 1));
  __syncthreads();
  if (pair.slot >= 0 && pair.rank == 0) counts[warp][pair.slot] = static_cast<uint16_t>(__popc(equal));
  __syncthreads();
  total = 0;
  if (thread < args.slot_count) {
    for (int i = 0; i < kWarps; ++i) {
      const int own = counts[i][thread];
      counts[i][thread] = static_cast<uint16_t>(total);
      total += own;
    }
  }
  __syncthreads();
  if (pair.slot >= 0) pair.rank += counts[warp][pair.slot];
  return pair;
}

// Returns the sum of `value` over all threads before this one.
__device__ __forceinline__ int SumBefore(int value) {
  NUMOE_SHARED(int, sums, [kWarps]);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  int sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  int before = sum - value;
  for (int i = 0; i < warp; ++i) before += sums[i];
  __syncthreads();  // `sums` may be overwritten by the next call
  return before;
}

// Called by each thread s with the number `total` of pairs of slot s. Writes the slot's pieces of work, and
// returns where its run begins.
__device__ __forceinline__ int CutIntoWork(const PermuteArgs& args, int total) {
  const int slot = static_cast<int>(threadIdx.x);
  const int pieces = (total + args.piece_rows - 1) / args.piece_rows;
  const int begin = SumBefore(total);
  const int first_piece = SumBefore(pieces);
  for (int i = 0; i < pieces; ++i) {
    const int done = i * args.piece_rows, rest = total - done;
    args.work[first_piece + i] = {slot, begin + done, rest < args.piece_rows ? rest : args.piece_rows, 0};
  }
  if (slot == kPermuteThreads - 1) *args.work_count = first_piece + pieces;
  return begin;
}

__device__ __forceinline__ void Place(const PermuteArgs& args, const Pair& pair, int place) {
  if (pair.index >= args.rows * args.k) return;
  const bool here = pair.slot >= 0;
  args.places[pair.index] = here ? place : -1;
  args.left[pair.index] = here ? -1 : args.experts[pair.index];
  if (here) args.tokens[place] = pair.index / args.k;
}

__global__ void __launch_bounds__(kPermuteThreads) PermuteInOneBlock(PermuteArgs args) {
  NUMOE_SHARED(uint16_t, counts, [kWarps][kSlotsMax]);
  NUMOE_SHARED(int, begins, [kSlotsMax]);
  int total;
  const Pair pair = RankInBlock(args, counts, total);
  const int begin = CutIntoWork(args, total);
  if (static_cast<int>(threadIdx.x) < kSlotsMax) begins[threadIdx.x] = begin;
  __syncthreads();
  Place(args, pair, pair.slot < 0 ? -1 : begins[pair.slot] + pair.rank);
}

__global__ void __launch_bounds__(kPermuteThreads) CountPairs(PermuteArgs args) {
  NUMOE_SHARED(uint16_t, counts, [kWarps][kSlotsMax]);
  int total;
  RankInBlock(args, counts, total);
  const int slot = static_cast<int>(threadIdx.x);
  if (slot < args.slot_count) args.counts[blockIdx.x * args.slot_count + slot] = total;
}

// Runs as one block: replaces the blocks' counts by the place where each block's run of each slot begins.
__global__ void __launch_bounds__(kPermuteThreads) PlaceRuns(PermuteArgs args, int blocks) {
  const int slot = static_cast<int>(threadIdx.x);
  int total = 0;
  if (slot < args.slot_count) {
    for (int i = 0; i < blocks; ++i) total += args.counts[i * args.slot_count + slot];
  }
  int begin = CutIntoWork(args, total);
  if (slot >= args.slot_count) return;
  for (int i = 0; i < blocks; ++i) {
    int32_t& count = args.counts[i * args.slot_count + slot];
    const int own = count;
    count = begin;
    begin += own;
  }
}

__global__ void __launch_bounds__(kPermuteThreads) PlacePairs(PermuteArgs args) {
  NUMOE_SHARED(uint16_t, counts, [kWarps][kSlotsMax]);
  int total;
  const Pair pair = RankInBlock(args, counts, total);
  Place(args, pair, pair.slot < 0 ? -1 : args.counts[blockIdx.x * args.slot_count + pair.slot] + pair.rank);
}

__global__ void __launch_bounds__(kCombineThreads) Combine(CombineArgs args) {
  const int row = static_cast<int>(blockIdx.x);
  const int channel = (static_cast<int>(blockIdx.y) * kCombineThreads + static_cast<int>(threadIdx.x)) * 8;
  if (channel >= args.hidden) return;
  float sums[8] = {};
  bool any = false;
  for (int j = 0; j < args.k; ++j) {
    const int place = args.places[row * args.k + j];
    if (place < 0) continue;
    any = true;
    const float weight = args.weights[row * args.k + j];
    const uint4 eight =
        *reinterpret_cast<const uint4*>(args.outputs + static_cast<int64_t>(place) * args.hidden + channel);
    const uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 values = UnpackBf16(pairs[i]);
      sums[2 * i] += weight * values.x;
      sums[2 * i + 1] += weight * values.y;
    }
  }
  if (!any) return;
  auto* out = reinterpret_cast<float4*>(args.residual + static_cast<int64_t>(row) * args.hidden + channel);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float4 old = out[i];
    out[i] = make_float4(old.x + sums[4 * i], old.y + sums[4 * i + 1], old.z + sums[4 * i + 2],
                         old.w + sums[4 * i + 3]);
  }
}

}  // namespace

void LaunchPermute(const PermuteArgs& args, Stream stream) {
  const int blocks = PermuteBlocks(args.rows * args.k);
  const LaunchShape one{dim3(1), dim3(kPermuteThreads), 0}, all{dim3(blocks), dim3(kPermuteThreads), 0};
  if (blocks == 1) {
    NUMOE_LAUNCH(PermuteInOneBlock, one, stream, args);
    return;
  }
  NUMOE_LAUNCH(CountPairs, all, stream, args);
  NUMOE_LAUNCH(PlaceRuns, one, stream, args, blocks);
  NUMOE_LAUNCH(PlacePairs, all, stream, args);
}

void LaunchCombine(const CombineArgs& args, Stream stream) {
  const int blocks = (args.hidden / 8 + kCombineThreads - 1) / kCombineThreads;
  const LaunchShape shape{dim3(args.rows, blocks), dim3(kCombineThreads), 0};
  NUMOE_LAUNCH(Combine, shape, stream, args);
}

}  // namespace numoe::execution::cuda
