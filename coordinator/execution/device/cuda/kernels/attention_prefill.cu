#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/attention_prefill.h"
#include "coordinator/execution/device/cuda/kernels/attention_rows.h"
#include "coordinator/execution/device/cuda/kernels/attention_tile.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kWarpRows = kPrefillTaskRows / kWarps;
constexpr int kRowTiles = kWarpRows / 16;
constexpr int kKeys = 64;

template <class KeySource, class ValueSource>
struct Shape {
  using Keys = KeySource;
  using Values = ValueSource;
  static constexpr int kWidth = Keys::kChunks * 8;
  static constexpr int kValueWidth = Values::kChunks * 8;
  static constexpr int kQueryBytes = kPrefillTaskRows * kWidth * 2;
  static constexpr int kKeyBytes = kKeys * kWidth * 2;
  static constexpr int kValueBytes = kKeys * kValueWidth * 2;
  static constexpr int kKeyLanding = Keys::template LandingBytes<kKeys>();
  static constexpr int kSharedBytes =
      kQueryBytes + kKeyBytes + kValueBytes + kKeyLanding + Values::template LandingBytes<kKeys>();
};

// A warp's 32 rows: registers 2m and 2m + 1 belong to rows g and g + 8 of row tile m.
template <int kValueWidth>
struct RowState {
  float sums[kRowTiles][kValueWidth / 8][4];
  float maxima[kRowTiles * 2];
  float totals[kRowTiles * 2];  // sums over this lane's own keys
};

using Scores = float[kRowTiles][kKeys / 8][4];
// Left operands of the second product: the registers of two score tiles, pair by pair, in BF16.
using Weights = uint32_t[kRowTiles][kKeys / 16][4];

template <int kValueWidth>
__device__ __forceinline__ void LoadState(const PrefillArgs& args, const PrefillTask& task, int head, int row,
                                          int lane, RowState<kValueWidth>& state) {
#pragma unroll
  for (int i = 0; i < kRowTiles * 2; ++i) {
    const int r = row + i * 8 + lane / 4;
    const bool kept = task.first == 0 && r < task.rows;
    const int64_t place = static_cast<int64_t>(task.row + r) * args.heads + head;
    state.maxima[i] = kept ? args.state.maxima[place] : -INFINITY;
    state.totals[i] = kept && lane % 4 == 0 ? args.state.totals[place] : 0.0f;
#pragma unroll
    for (int n = 0; n < kValueWidth / 8; ++n) {
      float2 pair = make_float2(0, 0);
      if (kept)
        pair = *reinterpret_cast<const float2*>(args.state.sums + place * kValueWidth + n * 8 + lane % 4 * 2);
      state.sums[i / 2][n][i % 2 * 2] = pair.x;
      state.sums[i / 2][n][i % 2 * 2 + 1] = pair.y;
    }
  }
}

template <int kValueWidth>
__device__ __forceinline__ void StoreState(const PrefillArgs& args, const PrefillTask& task, int head,
                                           int row, int lane, const RowState<kValueWidth>& state) {
#pragma unroll
  for (int i = 0; i < kRowTiles * 2; ++i) {
    const float total = RowSum(state.totals[i]);
    const int r = row + i * 8 + lane / 4;
    if (r >= task.rows) continue;
    const int64_t place = static_cast<int64_t>(task.row + r) * args.heads + head;
    const int64_t at = place * kValueWidth + lane % 4 * 2;
    if (task.last == 0 && lane % 4 == 0) {
      args.state.maxima[place] = state.maxima[i];
      args.state.totals[place] = total;
    }
    const float inverse = 1.0f / total;
#pragma unroll
    for (int n = 0; n < kValueWidth / 8; ++n) {
      const float first = state.sums[i / 2][n][i % 2 * 2];
      const float second = state.sums[i / 2][n][i % 2 * 2 + 1];
      if (task.last != 0) {
        *reinterpret_cast<uint32_t*>(args.out + at + n * 8) = PackBf16(first * inverse, second * inverse);
      } else {
        *reinterpret_cast<float2*>(args.state.sums + at + n * 8) = make_float2(first, second);
      }
    }
  }
}

template <class S>
__device__ __forceinline__ void ScoreKeys(const uint4* query, const uint4* keys, int row, int lane,
                                          Scores& scores) {
#pragma unroll 4
  for (int step = 0; step < S::kWidth / 16; ++step) {
    uint32_t left[kRowTiles][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
      Tile<S::Keys::kChunks>::LoadLeft(left[m], query, row + m * 16, step, lane);
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
      uint32_t right[4];
      Tile<S::Keys::kChunks>::LoadRight(right, keys, n * 16, step, lane);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        MmaBf16(scores[m][n * 2], left[m], right[0], right[1]);
        MmaBf16(scores[m][n * 2 + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// Gives no weight to keys after a row's own position or beyond the stretch. `visible` is the number of keys
// of this tile to which row 0 of the warp attends; row r attends to r more, but to at most `keys_left`.
__device__ __forceinline__ void Mask(int visible, int keys_left, int lane, Scores& scores) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int i = 0; i < kKeys / 8 * 4; ++i) {
      const int key = i / 4 * 8 + lane % 4 * 2 + i % 2;
      const int seen = visible + m * 16 + i / 2 % 2 * 8 + lane / 4;
      if (key >= (seen < keys_left ? seen : keys_left)) scores[m][i / 4][i % 4] = -INFINITY;
    }
  }
}

// Converts scores to weights; if a maximum grows, scales the earlier sums down.
template <int kValueWidth>
__device__ __forceinline__ void Weigh(float scale, const Scores& scores, Weights& weights,
                                      RowState<kValueWidth>& state) {
  float factors[kRowTiles * 2];
  bool shrinks = false;
#pragma unroll
  for (int i = 0; i < kRowTiles * 2; ++i) {
    float top = -INFINITY;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      top = fmaxf(top, fmaxf(scores[i / 2][n][i % 2 * 2], scores[i / 2][n][i % 2 * 2 + 1]));
    }
    const float maximum = fmaxf(state.maxima[i], RowMaximum(top) * scale);
    // A row that has attended to no key yet has no maximum.
    const float base = maximum == -INFINITY ? 0.0f : maximum;
    factors[i] = FastExp2(state.maxima[i] - base);
    shrinks |= factors[i] != 1.0f;
    state.maxima[i] = maximum;
    float total = 0;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const float first = FastExp2(fmaf(scores[i / 2][n][i % 2 * 2], scale, -base));
      const float second = FastExp2(fmaf(scores[i / 2][n][i % 2 * 2 + 1], scale, -base));
      weights[i / 2][n / 2][n % 2 * 2 + i % 2] = PackBf16(first, second);
      total += first + second;
    }
    state.totals[i] = state.totals[i] * factors[i] + total;
  }
  if (!__any_sync(~0u, shrinks)) return;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int i = 0; i < kValueWidth / 8 * 4; ++i) state.sums[m][i / 4][i % 4] *= factors[m * 2 + i / 2 % 2];
  }
}

template <int kValueWidth>
__device__ __forceinline__ void AddValues(const uint4* values, int lane, const Weights& weights,
                                          RowState<kValueWidth>& state) {
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) {
#pragma unroll
    for (int n = 0; n < kValueWidth / 16; ++n) {
      uint32_t right[4];
      Tile<kValueWidth / 8>::LoadDeep(right, values, step * 16, n, lane);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        MmaBf16(state.sums[m][n * 2], weights[m][step], right[0], right[1]);
        MmaBf16(state.sums[m][n * 2 + 1], weights[m][step], right[2], right[3]);
      }
    }
  }
}

template <class S>
__device__ __forceinline__ void IssueQuery(const PrefillArgs& args, const PrefillTask& task, int head,
                                           uint4* query) {
  for (int i = static_cast<int>(threadIdx.x); i < kPrefillTaskRows * S::Keys::kChunks; i += kThreads) {
    const int row = i / S::Keys::kChunks;
    const int chunk = i % S::Keys::kChunks;
    const bool valid = row < task.rows;
    const int64_t place = static_cast<int64_t>(task.row + (valid ? row : 0)) * args.heads + head;
    CpAsync<16>(Tile<S::Keys::kChunks>::Place(query, row, chunk), args.query + place * S::kWidth + chunk * 8,
                valid ? 16 : 0);
  }
}

template <class S>
__device__ __forceinline__ void RunTask(const PrefillArgs& args, const PrefillTask& task, int head,
                                        const typename S::Keys& key_source,
                                        const typename S::Values& value_source, std::byte* memory) {
  uint4* const query = reinterpret_cast<uint4*>(memory);
  uint4* const keys = reinterpret_cast<uint4*>(memory + S::kQueryBytes);
  uint4* const values = reinterpret_cast<uint4*>(memory + S::kQueryBytes + S::kKeyBytes);
  std::byte* const key_landing = memory + S::kQueryBytes + S::kKeyBytes + S::kValueBytes;
  std::byte* const value_landing = key_landing + S::kKeyLanding;
  const Team team{static_cast<int>(threadIdx.x), kThreads};
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = static_cast<int>(threadIdx.x / 32) * kWarpRows;
  const float scale = args.scale * kLog2E;

  IssueQuery<S>(args, task, head, query);
  key_source.template Issue<kKeys>(keys, key_landing, task.key_begin, task.key_end, team);
  CpAsyncCommit();
  RowState<S::kValueWidth> state;
  LoadState(args, task, head, row, lane, state);
  for (int first = task.key_begin; first < task.key_end; first += kKeys) {
    CpAsyncWait<0>();
    __syncthreads();  // the keys have arrived, and no thread needs the previous values
    value_source.template Issue<kKeys>(values, value_landing, first, task.key_end, team);
    CpAsyncCommit();
    if constexpr (S::Keys::kWidens) {
      S::Keys::template Widen<kKeys>(keys, key_landing, team);
      __syncthreads();
    }
    // The number of keys of this tile to which row 0 of the warp attends; zero or less if there are none.
    const int visible = task.position + row + 1 - first;
    const bool works = visible + kWarpRows - 1 > 0 && row < task.rows;
    Weights weights;
    if (works) {
      Scores scores = {};
      ScoreKeys<S>(query, keys, row, lane, scores);
      if (visible < kKeys || task.key_end - first < kKeys) Mask(visible, task.key_end - first, lane, scores);
      Weigh(scale, scores, weights, state);
    }
    CpAsyncWait<0>();
    __syncthreads();  // the values have arrived, and no thread needs the keys
    if (first + kKeys < task.key_end) {
      key_source.template Issue<kKeys>(keys, key_landing, first + kKeys, task.key_end, team);
    }
    CpAsyncCommit();
    if constexpr (S::Values::kWidens) {
      S::Values::template Widen<kKeys>(values, value_landing, team);
      __syncthreads();
    }
    if (works) AddValues(values, lane, weights, state);
  }
  StoreState(args, task, head, row, lane, state);
}

template <int kNope, int kRope, int kValue>
using ExpandedShape = Shape<ExpandedRows<kNope, kRope>, ExpandedRows<kValue, 0>>;

template <int kNope, int kRope, int kValue>
__global__ void __launch_bounds__(kThreads, 2) ExpandedPrefillKernel(ExpandedPrefillArgs args) {
  NUMOE_DYNAMIC_SHARED(std::byte, memory);
  const PrefillTask task = args.common.tasks[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y);
  const int64_t row = static_cast<int64_t>(task.key_row) - task.key_begin;  // row of position 0
  const ExpandedRows<kNope, kRope> keys{args.keys + row * args.key_stride + head * args.key_head_stride,
                                        args.key_stride, args.ropes + row * args.rope_stride,
                                        args.rope_stride};
  const ExpandedRows<kValue, 0> values{args.values + row * args.value_stride + head * args.value_head_stride,
                                       args.value_stride, nullptr, 0};
  RunTask<ExpandedShape<kNope, kRope, kValue>>(args.common, task, head, keys, values, memory);
}

template <int kWidth, bool kFp8>
using PagedShape = Shape<PagedRows<kWidth, kFp8>, PagedRows<kWidth, kFp8>>;

template <int kWidth, bool kFp8>
__global__ void __launch_bounds__(kThreads, 2) PagedPrefillKernel(PagedPrefillArgs args) {
  NUMOE_DYNAMIC_SHARED(std::byte, memory);
  const PrefillTask task = args.common.tasks[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y);
  const int cache_head = head / (args.common.heads / args.cache.heads);
  const int32_t* const table =
      args.tables.block_tables + static_cast<int64_t>(task.sequence) * args.tables.blocks_per_sequence_max;
  const PagedRows<kWidth, kFp8> keys{KeyPlane(args.cache, cache_head), table};
  const PagedRows<kWidth, kFp8> values{ValuePlane(args.cache, cache_head), table};
  RunTask<PagedShape<kWidth, kFp8>>(args.common, task, head, keys, values, memory);
}

template <int kNope, int kRope, int kValue>
bool LaunchIf(const ExpandedPrefillArgs& args, Stream stream) {
  if (args.common.key_width != kNope + kRope || args.rope_width != kRope || args.common.value_width != kValue)
    return false;
  const LaunchShape shape{dim3(args.common.task_count, args.common.heads), dim3(kThreads),
                          ExpandedShape<kNope, kRope, kValue>::kSharedBytes};
  NUMOE_LAUNCH((ExpandedPrefillKernel<kNope, kRope, kValue>), shape, stream, args);
  return true;
}

template <int kWidth, bool kFp8>
bool LaunchIf(const PagedPrefillArgs& args, Stream stream) {
  if (args.common.key_width != kWidth || (args.cache.keys.coded > 0) != kFp8) return false;
  const LaunchShape shape{dim3(args.common.task_count, args.common.heads), dim3(kThreads),
                          PagedShape<kWidth, kFp8>::kSharedBytes};
  NUMOE_LAUNCH((PagedPrefillKernel<kWidth, kFp8>), shape, stream, args);
  return true;
}

}  // namespace

bool HasExpandedPrefill(int nope, int rope, int value) {
  return (nope == 128 && rope == 64 && value == 128) ||
         (nope == 32 && (rope == 16 || rope == 32) && value == 32);
}

void LaunchExpandedPrefill(const ExpandedPrefillArgs& args, Stream stream) {
  if (args.common.task_count == 0) return;
  const bool launched = LaunchIf<128, 64, 128>(args, stream) || LaunchIf<32, 16, 32>(args, stream) ||
                        LaunchIf<32, 32, 32>(args, stream);
  NUMOE_CHECK(launched) << "there is no kernel for widths " << args.common.key_width << " and "
                        << args.common.value_width;
}

bool HasPagedPrefill(int width) { return width == 32 || width == 64 || width == 96 || width == 128; }

void LaunchPagedPrefill(const PagedPrefillArgs& args, Stream stream) {
  if (args.common.task_count == 0) return;
  const bool launched = LaunchIf<128, false>(args, stream) || LaunchIf<128, true>(args, stream) ||
                        LaunchIf<96, false>(args, stream) || LaunchIf<96, true>(args, stream) ||
                        LaunchIf<64, false>(args, stream) || LaunchIf<64, true>(args, stream) ||
                        LaunchIf<32, false>(args, stream) || LaunchIf<32, true>(args, stream);
  NUMOE_CHECK(launched) << "width " << args.common.key_width;
}

}  // namespace numoe::execution::cuda
