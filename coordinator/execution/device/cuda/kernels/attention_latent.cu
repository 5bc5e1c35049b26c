#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/attention_latent.h"
#include "coordinator/execution/device/cuda/kernels/attention_tile.h"
#include "coordinator/execution/device/cuda/kernels/cache_codes.h"

namespace numoe::execution::cuda {
namespace {

template <int kLatentWidth, int kRopeWidth, int kHeadCount, int kKeyCount, int kStageCount, int kWarpCount,
          bool kCodes>
struct Shape {
  static constexpr int kLatent = kLatentWidth, kWidth = kLatentWidth + kRopeWidth;
  static constexpr int kHeads = kHeadCount, kKeys = kKeyCount, kStages = kStageCount, kWarps = kWarpCount;
  static constexpr bool kFp8 = kCodes;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kChunks = kWidth / 8;
  static constexpr int kBlocks = kKeys / kCacheBlockTokens;  // cache blocks per tile
  // First product: a warp computes kRowTiles * 16 heads by 16 keys.
  static constexpr int kKeyGroups = kKeys / 16;
  static constexpr int kRowTiles = kHeads * kKeys / (256 * kWarps) > 0 ? kHeads* kKeys / (256 * kWarps) : 1;
  static constexpr int kScoreWarps = kHeads * kKeys / (256 * kRowTiles);
  // Second product: a warp computes all heads by kColumns channels.
  static constexpr int kColumns = kLatent / kWarps;
  static constexpr int kHeadTiles = kHeads / 16;
  // A tile as it arrives: BF16 rows, swizzled by the copies, or whole blocks of the FP8 cache.
  static constexpr int kExponents = kLatent / cache_row::kGroup > 0 ? kLatent / cache_row::kGroup : 1;
  static constexpr int kCodedRowBytes = kLatent + kRopeWidth * 2;
  static constexpr int kCodedBlockBytes = (kCacheBlockTokens * (kCodedRowBytes + kExponents) + 63) / 64 * 64;
  static constexpr int kTileBytes = kKeys * kWidth * 2;
  static constexpr int kStageBytes = kFp8 ? kBlocks * kCodedBlockBytes : kTileBytes;
  static constexpr int kQueryBytes = kHeads * kWidth * 2;
  static constexpr int kWeightBytes = kHeads * kKeys * 2;
  static constexpr int kStatBytes = (kKeyGroups + 1) * kHeads * 4;
  static constexpr int kSharedBytes =
      kQueryBytes + kStages * kStageBytes + (kFp8 ? kTileBytes : 0) + kWeightBytes + kStatBytes;

  static_assert(kHeads % (16 * kRowTiles) == 0 && kScoreWarps <= kWarps && kColumns % 16 == 0 &&
                kStages >= 2);

  using Rows = Tile<kChunks>;            // the query and the keys
  using Weights = Tile<kKeyGroups * 2>;  // [heads, keys]
};

struct Shared {
  uint4* query;
  std::byte* stages;
  uint4* wide;     // with FP8: the widened tile
  uint4* weights;  // of the softmax, not yet divided
  float* maxima;   // [key groups][heads] of the tile; totals at the end of a piece
  float* factors;  // [heads] with which earlier sums are multiplied
};

template <class S>
__device__ __forceinline__ Shared PlaceShared(std::byte* memory) {
  Shared shared;
  shared.query = reinterpret_cast<uint4*>(memory);
  shared.stages = memory + S::kQueryBytes;
  std::byte* at = shared.stages + S::kStages * S::kStageBytes;
  shared.wide = reinterpret_cast<uint4*>(at);
  at += S::kFp8 ? S::kTileBytes : 0;
  shared.weights = reinterpret_cast<uint4*>(at);
  shared.maxima = reinterpret_cast<float*>(at + S::kWeightBytes);
  shared.factors = shared.maxima + S::kKeyGroups * S::kHeads;
  return shared;
}

// Issues the copies of a piece's query heads. Heads that do not exist arrive as zeros.
template <class S>
__device__ __forceinline__ void IssueQuery(const LatentDecodeArgs& args, const Shared& shared, int row,
                                           int head) {
  const Bf16* const from = args.query + (static_cast<int64_t>(row) * args.heads + head) * S::kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < S::kHeads * S::kChunks; i += S::kThreads) {
    const int r = i / S::kChunks;
    const bool is_head = head + r < args.heads;
    CpAsync<16>(S::Rows::Place(shared.query, r, i % S::kChunks), is_head ? from + i * 8 : from,
                is_head ? 16 : 0);
  }
}

// Issues the copies of the tile at `first` as one group of copies. Positions `end` and later arrive as zeros;
// if the whole tile follows `end`, the group is empty.
template <class S>
__device__ __forceinline__ void IssueTile(const LatentDecodeArgs& args, std::byte* stage,
                                          const int32_t* table, int first, int end) {
  const int form_bytes = args.cache.keys.block_bytes;
  if (first < end) {
#pragma unroll
    for (int b = 0; b < S::kBlocks; ++b) {
      const int begin = first + b * kCacheBlockTokens;
      const int rows = end - begin < kCacheBlockTokens ? end - begin : kCacheBlockTokens;
      const int block = rows > 0 ? table[begin / kCacheBlockTokens] : 0;
      const std::byte* const from = args.cache.base + static_cast<int64_t>(block) * form_bytes;
      constexpr int kRowChunks = S::kFp8 ? S::kCodedRowBytes / 16 : S::kChunks;
      constexpr int kBlockChunks = S::kFp8 ? S::kCodedBlockBytes / 16 : kCacheBlockTokens * S::kChunks;
      for (int i = static_cast<int>(threadIdx.x); i < kBlockChunks; i += S::kThreads) {
        const int row = i / kRowChunks;
        // Exponents follow the sixteen rows and are copied if the block has any valid row.
        const bool valid = row < kCacheBlockTokens ? row < rows : rows > 0;
        uint4* const to = S::kFp8 ? reinterpret_cast<uint4*>(stage + b * S::kCodedBlockBytes) + i
                                  : S::Rows::Place(reinterpret_cast<uint4*>(stage),
                                                   b * kCacheBlockTokens + row, i % kRowChunks);
        CpAsync<16>(to, valid ? from + static_cast<int64_t>(i) * 16 : args.cache.base, valid ? 16 : 0);
      }
    }
  }
  CpAsyncCommit();
}

template <class S>
__device__ __forceinline__ void WidenTile(const std::byte* stage, uint4* wide) {
  for (int i = static_cast<int>(threadIdx.x); i < S::kKeys * S::kChunks; i += S::kThreads) {
    const int row = i / S::kChunks;
    const int chunk = i % S::kChunks;
    const std::byte* const block = stage + row / kCacheBlockTokens * S::kCodedBlockBytes;
    const std::byte* const from = block + row % kCacheBlockTokens * S::kCodedRowBytes;
    uint4 value;
    if (chunk < S::kLatent / 8) {
      const uint8_t* const exponents =
          reinterpret_cast<const uint8_t*>(block + kCacheBlockTokens * S::kCodedRowBytes);
      const uint32_t exponent =
          exponents[row % kCacheBlockTokens * S::kExponents + chunk * 8 / cache_row::kGroup];
      const uint2 codes = *reinterpret_cast<const uint2*>(from + chunk * 8);
      const uint2 low = WidenQuad(codes.x, exponent);
      const uint2 high = WidenQuad(codes.y, exponent);
      value = make_uint4(low.x, low.y, high.x, high.y);
    } else {
      value = *reinterpret_cast<const uint4*>(from + S::kLatent + (chunk - S::kLatent / 8) * 16);
    }
    *S::Rows::Place(wide, row, chunk) = value;
  }
}

// A warp's state of its heads' softmax: for row tile m, registers 2m and 2m + 1 are rows g and g + 8.
template <class S>
struct Softmax {
  float maxima[S::kRowTiles * 2];
  float totals[S::kRowTiles * 2];  // sums over this lane's own keys
};

template <class S>
__device__ __forceinline__ void ScoreTile(const Shared& shared, const uint4* keys, int row, int group,
                                          int lane, float (&scores)[S::kRowTiles][2][4]) {
#pragma unroll 4
  for (int step = 0; step < S::kWidth / 16; ++step) {
    uint32_t right[4];
    S::Rows::LoadRight(right, keys, group * 16, step, lane);
#pragma unroll
    for (int m = 0; m < S::kRowTiles; ++m) {
      uint32_t left[4];
      S::Rows::LoadLeft(left, shared.query, row + m * 16, step, lane);
      MmaBf16(scores[m][0], left, right[0], right[1]);
      MmaBf16(scores[m][1], left, right[2], right[3]);
    }
  }
}

// Converts scores to base-2 exponents, and writes the maxima over this warp's 16 keys to shared memory.
template <class S>
__device__ __forceinline__ void MaskAndMaximise(const Shared& shared, float scale, int row, int group,
                                                int keys_left, int lane,
                                                float (&scores)[S::kRowTiles][2][4]) {
#pragma unroll
  for (int m = 0; m < S::kRowTiles; ++m) {
    float top[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int key = group * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2;
      float& score = scores[m][i / 4][i % 4];
      score = key < keys_left ? score * scale : -INFINITY;
      top[i / 2 % 2] = fmaxf(top[i / 2 % 2], score);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float maximum = RowMaximum(top[half]);
      if (lane % 4 == 0) shared.maxima[group * S::kHeads + row + m * 16 + half * 8 + lane / 4] = maximum;
    }
  }
}

template <class S>
__device__ __forceinline__ void Weigh(const Shared& shared, int row, int group, int lane,
                                      const float (&scores)[S::kRowTiles][2][4], Softmax<S>& softmax) {
#pragma unroll
  for (int i = 0; i < S::kRowTiles * 2; ++i) {
    const int head = row + i / 2 * 16 + i % 2 * 8 + lane / 4;
    float maximum = softmax.maxima[i];
#pragma unroll
    for (int g = 0; g < S::kKeyGroups; ++g) maximum = fmaxf(maximum, shared.maxima[g * S::kHeads + head]);
    const float factor = FastExp2(softmax.maxima[i] - maximum);
    softmax.maxima[i] = maximum;
    if (group == 0 && lane % 4 == 0) shared.factors[head] = factor;
    float total = softmax.totals[i] * factor;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float first = FastExp2(scores[i / 2][j][i % 2 * 2] - maximum);
      const float second = FastExp2(scores[i / 2][j][i % 2 * 2 + 1] - maximum);
      total += first + second;
      S::Weights::StorePair(shared.weights, head, group * 16 + j * 8 + lane % 4 * 2, PackBf16(first, second));
    }
    softmax.totals[i] = total;
  }
}

template <class S>
using Sums = float[S::kHeadTiles][S::kColumns / 8][4];

template <class S>
__device__ __forceinline__ void AddRows(const Shared& shared, const uint4* keys, int warp, int lane,
                                        Sums<S>& sums) {
  float factors[S::kHeadTiles * 2];
  bool shrinks = false;
#pragma unroll
  for (int i = 0; i < S::kHeadTiles * 2; ++i) {
    factors[i] = shared.factors[i * 8 + lane / 4];
    shrinks |= factors[i] != 1.0f;
  }
  // Maxima usually stay the same after some tiles; then nothing is to be done.
  if (__any_sync(~0u, shrinks)) {
#pragma unroll
    for (int m = 0; m < S::kHeadTiles; ++m) {
#pragma unroll
      for (int i = 0; i < S::kColumns / 8 * 4; ++i) sums[m][i / 4][i % 4] *= factors[m * 2 + i / 2 % 2];
    }
  }
#pragma unroll
  for (int step = 0; step < S::kKeys / 16; ++step) {
    uint32_t left[S::kHeadTiles][4];
#pragma unroll
    for (int m = 0; m < S::kHeadTiles; ++m) S::Weights::LoadLeft(left[m], shared.weights, m * 16, step, lane);
#pragma unroll
    for (int n = 0; n < S::kColumns / 16; ++n) {
      uint32_t right[4];
      S::Rows::LoadDeep(right, keys, step * 16, warp * S::kColumns / 16 + n, lane);
#pragma unroll
      for (int m = 0; m < S::kHeadTiles; ++m) {
        MmaBf16(sums[m][n * 2], left[m], right[0], right[1]);
        MmaBf16(sums[m][n * 2 + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// Ends a piece: writes the row's result if the piece is the whole row, a partial result otherwise.
template <class S>
__device__ __forceinline__ void StorePiece(const LatentDecodeArgs& args, const Shared& shared, int piece,
                                           int row, int head, int warp, int lane, const Sums<S>& sums) {
  const bool whole = args.lists.row_first[row + 1] - args.lists.row_first[row] == 1;
#pragma unroll
  for (int i = 0; i < S::kHeadTiles * 2; ++i) {
    const int r = i * 8 + lane / 4;
    if (head + r >= args.heads) continue;
    float total = 0;
#pragma unroll
    for (int g = 0; g < S::kKeyGroups; ++g) total += shared.maxima[g * S::kHeads + r];
    const int64_t place = static_cast<int64_t>(whole ? row : piece) * args.heads + head + r;
    if (!whole && warp == 0 && lane % 4 == 0) args.parts.totals[place] = total;
    const float inverse = 1.0f / total;
    const int64_t at = place * S::kLatent + warp * S::kColumns + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < S::kColumns / 8; ++n) {
      const float first = sums[i / 2][n][i % 2 * 2];
      const float second = sums[i / 2][n][i % 2 * 2 + 1];
      if (whole) {
        *reinterpret_cast<uint32_t*>(args.out + at + n * 8) = PackBf16(first * inverse, second * inverse);
      } else {
        *reinterpret_cast<float2*>(args.parts.sums + at + n * 8) = make_float2(first, second);
      }
    }
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) LatentDecodeKernel(LatentDecodeArgs args) {
  NUMOE_DYNAMIC_SHARED(std::byte, memory);
  const Shared shared = PlaceShared<S>(memory);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int head = static_cast<int>(blockIdx.y) * S::kHeads;
  const int group = warp % S::kKeyGroups;
  const int score_row = warp / S::kKeyGroups * S::kRowTiles * 16;
  const bool scores_tile = warp < S::kScoreWarps;
  const float scale = args.scale * kLog2E;
  const int last_piece = args.lists.worker_first[blockIdx.x + 1];
  int piece_at = args.lists.worker_first[blockIdx.x];
  if (piece_at >= last_piece) return;

  int turn = 0;  // number of tiles so far; the current one is in stage turn % kStages
  const auto table_of = [&](int row) {
    return args.tables.block_tables +
           static_cast<int64_t>(args.tables.sequences[row]) * args.tables.blocks_per_sequence_max;
  };
  // Issues the copies of the query and of the first tiles of a piece: kStages - 1 groups of copies.
  const auto begin_piece = [&](const DecodePiece& piece) {
    IssueQuery<S>(args, shared, piece.row, head);
    const int32_t* const table = table_of(piece.row);
    for (int i = 0; i < S::kStages - 1; ++i) {
      IssueTile<S>(args, shared.stages + (turn + i) % S::kStages * S::kStageBytes, table,
                   piece.begin + i * S::kKeys, piece.end);
    }
  };
  begin_piece(args.lists.pieces[piece_at]);

  for (; piece_at < last_piece; ++piece_at) {
    const DecodePiece piece = args.lists.pieces[piece_at];
    const int32_t* const table = table_of(piece.row);
    Sums<S> sums = {};
    Softmax<S> softmax;
    for (int i = 0; i < S::kRowTiles * 2; ++i) {
      softmax.maxima[i] = -INFINITY;
      softmax.totals[i] = 0;
    }
    for (int first = piece.begin; first < piece.end; first += S::kKeys, ++turn) {
      CpAsyncWait<S::kStages - 2>();
      __syncthreads();  // the tile has arrived for all threads, and no thread needs the previous tile
      IssueTile<S>(args, shared.stages + (turn + S::kStages - 1) % S::kStages * S::kStageBytes, table,
                   first + (S::kStages - 1) * S::kKeys, piece.end);
      const std::byte* const stage = shared.stages + turn % S::kStages * S::kStageBytes;
      const uint4* const keys = S::kFp8 ? shared.wide : reinterpret_cast<const uint4*>(stage);
      if constexpr (S::kFp8) {
        WidenTile<S>(stage, shared.wide);
        __syncthreads();
      }
      float scores[S::kRowTiles][2][4] = {};
      if (scores_tile) {
        ScoreTile<S>(shared, keys, score_row, group, lane, scores);
        MaskAndMaximise<S>(shared, scale, score_row, group, piece.end - first, lane, scores);
      }
      __syncthreads();
      if (scores_tile) Weigh<S>(shared, score_row, group, lane, scores, softmax);
      __syncthreads();
      AddRows<S>(shared, keys, warp, lane, sums);
    }
    // All threads have computed the scores of the last tile, so the query may be overwritten, and so may all
    // stages except that of the last tile.
    if (piece_at + 1 < last_piece) begin_piece(args.lists.pieces[piece_at + 1]);
    if (scores_tile) {
#pragma unroll
      for (int i = 0; i < S::kRowTiles * 2; ++i) {
        const int r = score_row + i / 2 * 16 + i % 2 * 8 + lane / 4;
        const float total = RowSum(softmax.totals[i]);
        if (lane % 4 == 0) shared.maxima[group * S::kHeads + r] = total;
        if (lane % 4 == 0 && group == 0 && head + r < args.heads) {
          args.parts.maxima[static_cast<int64_t>(piece_at) * args.heads + head + r] = softmax.maxima[i];
        }
      }
    }
    __syncthreads();
    StorePiece<S>(args, shared, piece_at, piece.row, head, warp, lane, sums);
  }
}

template <class S>
void Launch(const LatentDecodeArgs& args, Stream stream) {
  const dim3 blocks(args.shape.workers, (args.heads + S::kHeads - 1) / S::kHeads);
  NUMOE_LAUNCH((LatentDecodeKernel<S>), (LaunchShape{blocks, dim3(S::kThreads), S::kSharedBytes}), stream,
               args);
}

//                       latent rope heads keys stages warps fp8
using Hopper = Shape<512, 64, 64, 64, 2, 8, false>;
using HopperFp8 = Shape<512, 64, 64, 32, 3, 8, true>;
using Ampere = Shape<512, 64, 64, 32, 2, 8, false>;
using AmpereFp8 = Shape<512, 64, 64, 32, 2, 8, true>;
using Small = Shape<512, 64, 32, 16, 3, 4, false>;
using SmallFp8 = Shape<512, 64, 32, 16, 3, 4, true>;
using Tiny16 = Shape<64, 16, 16, 16, 3, 4, false>;
using Tiny16Fp8 = Shape<64, 16, 16, 16, 3, 4, true>;
using Tiny32 = Shape<64, 32, 16, 16, 3, 4, false>;
using Tiny32Fp8 = Shape<64, 32, 16, 16, 3, 4, true>;
using Nano = Shape<128, 32, 16, 16, 3, 4, false>;
using NanoFp8 = Shape<128, 32, 16, 16, 3, 4, true>;

template <class S>
bool Fits(LatentWidths widths, bool fp8, int64_t shared_bytes_max, LatentKernelShape& shape) {
  if (shape.heads > 0 || widths.latent != S::kLatent || widths.latent + widths.rope != S::kWidth ||
      fp8 != S::kFp8 || S::kSharedBytes > shared_bytes_max) {
    return false;
  }
  shape = {widths, fp8, S::kHeads, S::kKeys, S::kStages, S::kSharedBytes};
  return true;
}

template <class S>
bool LaunchIf(const LatentDecodeArgs& args, Stream stream) {
  LatentKernelShape shape;
  if (!Fits<S>(args.kernel.widths, args.kernel.fp8, args.kernel.shared_bytes, shape)) return false;
  if (shape.shared_bytes != args.kernel.shared_bytes) return false;
  Launch<S>(args, stream);
  return true;
}

template <class... S>
struct Instances {
  static LatentKernelShape Find(LatentWidths widths, bool fp8, int64_t shared_bytes_max) {
    LatentKernelShape shape;
    (Fits<S>(widths, fp8, shared_bytes_max, shape) || ...);
    return shape;
  }
  static bool Run(const LatentDecodeArgs& args, Stream stream) { return (LaunchIf<S>(args, stream) || ...); }
};
// The first instance that fits is used.
using AllInstances = Instances<Hopper, Ampere, Small, HopperFp8, AmpereFp8, SmallFp8, Tiny16, Tiny16Fp8,
                               Tiny32, Tiny32Fp8, Nano, NanoFp8>;

}  // namespace

LatentKernelShape PlanLatentKernel(LatentWidths widths, bool fp8, int64_t shared_bytes_max) {
  return AllInstances::Find(widths, fp8, shared_bytes_max);
}

void LaunchLatentDecode(const LatentDecodeArgs& args, Stream stream) {
  NUMOE_CHECK(AllInstances::Run(args, stream)) << "the kernel's shape was not made by PlanLatentKernel";
}

}  // namespace numoe::execution::cuda
