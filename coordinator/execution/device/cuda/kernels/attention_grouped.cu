#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/attention_grouped.h"
#include "coordinator/execution/device/cuda/kernels/attention_rows.h"
#include "coordinator/execution/device/cuda/kernels/attention_tile.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kWarps = kGroupedTileKeys / kCacheBlockTokens;
constexpr int kThreads = kWarps * 32;
constexpr int kStages = 2;
constexpr int kBlocksMax = 3;             // per multiprocessor, limited by registers
constexpr int kKeys = kCacheBlockTokens;  // per tile of a warp
constexpr int kRows = kGroupedHeadsMax;

template <int kWidthOfHead, bool kCodes>
struct Shape {
  static constexpr int kWidth = kWidthOfHead;
  using Source = PagedRows<kWidth, kCodes>;
  using Rows = Tile<kWidth / 8>;
  static constexpr int kQueryBytes = kRows * kWidth * 2;
  static constexpr int kTileBytes = kKeys * kWidth * 2;
  static constexpr int kLanding = Source::template LandingBytes<kKeys>();
  // BF16 rows arrive in the tiles themselves; FP8 rows arrive elsewhere and are widened to one pair of tiles.
  static constexpr int kTiles = kCodes ? 1 : kStages;
  static constexpr int kWarpBytes = 2 * (kTiles * kTileBytes + (kCodes ? kStages * kLanding : 0));
  static constexpr int kJoinBytes = kWarps * kRows * (kWidth + 2) * 4;  // reuses the memory of the tiles
  static constexpr int kSharedBytes =
      kQueryBytes + (kWarps * kWarpBytes > kJoinBytes ? kWarps * kWarpBytes : kJoinBytes);
};

// One warp's stages; the functions return the keys and values of tile `turn`.
template <class S>
struct WarpTiles {
  std::byte* memory;

  __device__ __forceinline__ uint4* Keys(int turn) const {
    return reinterpret_cast<uint4*>(memory + turn % S::kTiles * 2 * S::kTileBytes);
  }
  __device__ __forceinline__ uint4* Values(int turn) const {
    return reinterpret_cast<uint4*>(memory + (turn % S::kTiles * 2 + 1) * S::kTileBytes);
  }
  __device__ __forceinline__ std::byte* Landing(int turn) const {
    return memory + S::kTiles * 2 * S::kTileBytes + turn % kStages * 2 * S::kLanding;
  }
};

template <class S>
struct HeadState {
  float sums[S::kWidth / 8][4];
  float maxima[2];
  float totals[2];  // sums over this lane's own keys
};

// Computes the scores of 16 heads and 16 keys, the softmax, and the sums of 16 values.
template <class S>
__device__ __forceinline__ void AttendTile(const uint32_t (&query)[S::kWidth / 16][4], const uint4* keys,
                                           const uint4* values, int keys_left, float scale, int lane,
                                           HeadState<S>& state) {
  float scores[2][4] = {};
#pragma unroll
  for (int step = 0; step < S::kWidth / 16; ++step) {
    uint32_t right[4];
    S::Rows::LoadRight(right, keys, 0, step, lane);
    MmaBf16(scores[0], query[step], right[0], right[1]);
    MmaBf16(scores[1], query[step], right[2], right[3]);
  }
  uint32_t weights[4];
  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = -INFINITY;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = i / 2 * 8 + lane % 4 * 2 + i % 2;
      float& score = scores[i / 2][half * 2 + i % 2];
      score = key < keys_left ? score * scale : -INFINITY;
      top = fmaxf(top, score);
    }
    const float maximum = fmaxf(state.maxima[half], RowMaximum(top));
    factors[half] = FastExp2(state.maxima[half] - maximum);
    state.maxima[half] = maximum;
    float total = state.totals[half] * factors[half];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float first = FastExp2(scores[j][half * 2] - maximum);
      const float second = FastExp2(scores[j][half * 2 + 1] - maximum);
      weights[j * 2 + half] = PackBf16(first, second);
      total += first + second;
    }
    state.totals[half] = total;
  }
  if (__any_sync(~0u, factors[0] != 1.0f || factors[1] != 1.0f)) {
#pragma unroll
    for (int i = 0; i < S::kWidth / 8 * 4; ++i) state.sums[i / 4][i % 4] *= factors[i / 2 % 2];
  }
#pragma unroll
  for (int n = 0; n < S::kWidth / 16; ++n) {
    uint32_t right[4];
    S::Rows::LoadDeep(right, values, 0, n, lane);
    MmaBf16(state.sums[n * 2], weights, right[0], right[1]);
    MmaBf16(state.sums[n * 2 + 1], weights, right[2], right[3]);
  }
}

// Processes every fourth block of the piece's tokens, beginning with the warp's own.
template <class S>
__device__ __forceinline__ void AttendPiece(const uint32_t (&query)[S::kWidth / 16][4],
                                            const typename S::Source& keys, const typename S::Source& values,
                                            const WarpTiles<S>& tiles, int begin, int end, float scale,
                                            int lane, HeadState<S>& state) {
  const Team team{lane, 32};
  const auto issue = [&](int first, int turn) {
    if (first < end) {
      keys.template Issue<kKeys>(tiles.Keys(turn), tiles.Landing(turn), first, end, team);
      values.template Issue<kKeys>(tiles.Values(turn), tiles.Landing(turn) + S::kLanding, first, end, team);
    }
    CpAsyncCommit();
  };
  int turn = 0;
  issue(begin, turn);
  for (int first = begin; first < end; first += kGroupedTileKeys, ++turn) {
    issue(first + kGroupedTileKeys, turn + 1);
    CpAsyncWait<1>();
    __syncwarp();
    if constexpr (S::Source::kWidens) {
      S::Source::template Widen<kKeys>(tiles.Keys(turn), tiles.Landing(turn), team);
      S::Source::template Widen<kKeys>(tiles.Values(turn), tiles.Landing(turn) + S::kLanding, team);
      __syncwarp();
    }
    AttendTile<S>(query, tiles.Keys(turn), tiles.Values(turn), end - first, scale, lane, state);
    __syncwarp();  // the stage may be overwritten now
  }
  CpAsyncWait<0>();
}

// Adds up the warps' sums, maxima and totals through shared memory, in order.
template <class S>
__device__ __forceinline__ void JoinWarps(const GroupedDecodeArgs& args, std::byte* memory, int piece,
                                          int row, int head, int heads, const HeadState<S>& state) {
  float* const sums = reinterpret_cast<float*>(memory);  // [warps][rows][width]
  float* const maxima = sums + kWarps * kRows * S::kWidth;
  float* const totals = maxima + kWarps * kRows;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  __syncthreads();  // all warps are done with their tiles
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int place = warp * kRows + half * 8 + lane / 4;
    const float total = RowSum(state.totals[half]);
    if (lane % 4 == 0) {
      maxima[place] = state.maxima[half];
      totals[place] = total;
    }
#pragma unroll
    for (int n = 0; n < S::kWidth / 8; ++n) {
      *reinterpret_cast<float2*>(sums + place * S::kWidth + n * 8 + lane % 4 * 2) =
          make_float2(state.sums[n][half * 2], state.sums[n][half * 2 + 1]);
    }
  }
  __syncthreads();
  const bool whole = args.lists.row_first[row + 1] - args.lists.row_first[row] == 1;
  for (int i = static_cast<int>(threadIdx.x); i < heads * S::kWidth / 2; i += kThreads) {
    const int r = i / (S::kWidth / 2);
    const int column = i % (S::kWidth / 2) * 2;
    float maximum = maxima[r];
    for (int w = 1; w < kWarps; ++w) maximum = fmaxf(maximum, maxima[w * kRows + r]);
    float first = 0, second = 0, total = 0;
    for (int w = 0; w < kWarps; ++w) {
      const float weight = FastExp2(maxima[w * kRows + r] - maximum);
      const float2 pair = *reinterpret_cast<const float2*>(sums + (w * kRows + r) * S::kWidth + column);
      first += weight * pair.x;
      second += weight * pair.y;
      total += weight * totals[w * kRows + r];
    }
    const int64_t place = static_cast<int64_t>(whole ? row : piece) * args.heads + head + r;
    if (whole) {
      const float inverse = 1.0f / total;
      *reinterpret_cast<uint32_t*>(args.out + place * S::kWidth + column) =
          PackBf16(first * inverse, second * inverse);
    } else {
      *reinterpret_cast<float2*>(args.parts.sums + place * S::kWidth + column) = make_float2(first, second);
      if (column == 0) {
        args.parts.maxima[place] = maximum;
        args.parts.totals[place] = total;
      }
    }
  }
}

template <class S>
__global__ void __launch_bounds__(kThreads, kBlocksMax) GroupedDecodeKernel(GroupedDecodeArgs args) {
  NUMOE_DYNAMIC_SHARED(std::byte, memory);
  uint4* const query_tile = reinterpret_cast<uint4*>(memory);
  std::byte* const warps = memory + S::kQueryBytes;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int shared_by = args.heads / args.cache.heads;
  const int groups = (shared_by + kRows - 1) / kRows;  // per cache head
  const int cache_head = static_cast<int>(blockIdx.y) / groups;
  const int first_head = static_cast<int>(blockIdx.y) % groups * kRows;  // within the cache head's heads
  const int heads = shared_by - first_head < kRows ? shared_by - first_head : kRows;
  const int head = cache_head * shared_by + first_head;
  const WarpTiles<S> tiles{warps + warp * S::kWarpBytes};

  const int last_piece = args.lists.worker_first[blockIdx.x + 1];
  for (int at = args.lists.worker_first[blockIdx.x]; at < last_piece; ++at) {
    const DecodePiece piece = args.lists.pieces[at];
    const int32_t* const table =
        args.tables.block_tables +
        static_cast<int64_t>(args.tables.sequences[piece.row]) * args.tables.blocks_per_sequence_max;
    const typename S::Source keys{KeyPlane(args.cache, cache_head), table};
    const typename S::Source values{ValuePlane(args.cache, cache_head), table};
    const Bf16* const from = args.query + (static_cast<int64_t>(piece.row) * args.heads + head) * S::kWidth;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * S::kWidth / 8; i += kThreads) {
      const bool is_head = i / (S::kWidth / 8) < heads;
      CpAsync<16>(S::Rows::Place(query_tile, i / (S::kWidth / 8), i % (S::kWidth / 8)),
                  is_head ? from + i * 8 : from, is_head ? 16 : 0);
    }
    CpAsyncCommit();
    CpAsyncWait<0>();
    __syncthreads();  // the query has arrived, and the sums of the previous piece have been read
    uint32_t query[S::kWidth / 16][4];
#pragma unroll
    for (int step = 0; step < S::kWidth / 16; ++step)
      S::Rows::LoadLeft(query[step], query_tile, 0, step, lane);
    HeadState<S> state = {};
    state.maxima[0] = state.maxima[1] = -INFINITY;
    AttendPiece<S>(query, keys, values, tiles, piece.begin + warp * kKeys, piece.end, args.scale * kLog2E,
                   lane, state);
    JoinWarps<S>(args, warps, at, piece.row, head, heads, state);
  }
}

template <class S>
bool Serves(int width, bool fp8) {
  return width == S::kWidth && fp8 == S::Source::kWidens;
}

template <class S>
bool LaunchIf(const GroupedDecodeArgs& args, Stream stream) {
  if (!Serves<S>(args.cache.keys.width, args.cache.keys.coded > 0)) return false;
  const int groups = (args.heads / args.cache.heads + kRows - 1) / kRows;
  const LaunchShape shape{dim3(args.shape.workers, args.cache.heads * groups), dim3(kThreads),
                          S::kSharedBytes};
  NUMOE_LAUNCH((GroupedDecodeKernel<S>), shape, stream, args);
  return true;
}

template <class S>
int SharedBytesIf(int width, bool fp8) {
  return Serves<S>(width, fp8) ? S::kSharedBytes : 0;
}

template <class... S>
struct Instances {
  static bool Run(const GroupedDecodeArgs& args, Stream stream) { return (LaunchIf<S>(args, stream) || ...); }
  static int SharedBytes(int width, bool fp8) { return (SharedBytesIf<S>(width, fp8) + ...); }
};
using AllInstances = Instances<Shape<128, false>, Shape<128, true>, Shape<96, false>, Shape<96, true>,
                               Shape<64, false>, Shape<64, true>, Shape<32, false>, Shape<32, true>>;

}  // namespace

int GroupedBlocksPerMultiprocessor(int width, bool fp8, int64_t shared_bytes) {
  constexpr int kReservedBytes = 1024;  // per block, by the system
  const int bytes = AllInstances::SharedBytes(width, fp8);
  if (bytes == 0) return 0;
  const int64_t blocks = shared_bytes / (bytes + kReservedBytes);
  return static_cast<int>(blocks < kBlocksMax ? blocks : kBlocksMax);
}

void LaunchGroupedDecode(const GroupedDecodeArgs& args, Stream stream) {
  NUMOE_CHECK(AllInstances::Run(args, stream))
      << "there is no kernel for heads of width " << args.cache.keys.width;
}

}  // namespace numoe::execution::cuda
