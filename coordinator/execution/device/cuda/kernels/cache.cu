#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "coordinator/execution/device/cuda/kernels/cache_codes.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kWarps = 4;  // per block; a warp stores the part of one row that belongs to one plane
constexpr int kWidthMax = 1152;

__device__ __forceinline__ void LoadFloats(const float* from, int n, float* out) {
  for (int i = 0; i < n; i += 4) {
    const float4 v = *reinterpret_cast<const float4*>(from + i);
    out[i] = v.x;
    out[i + 1] = v.y;
    out[i + 2] = v.z;
    out[i + 3] = v.w;
  }
}
__device__ __forceinline__ void LoadFloats(const Bf16* from, int n, float* out) {
  for (int i = 0; i < n; i += 8) {
    const uint4 v = *reinterpret_cast<const uint4*>(from + i);
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      out[i + 2 * j] = __uint_as_float(words[j] << 16);
      out[i + 2 * j + 1] = __uint_as_float(words[j] & 0xffff0000u);
    }
  }
}

// Eight lanes share a group of 128 values; each has 16 values and stores 16 codes. A lane's place in its
// group is its place in the warp modulo 8. All lanes of a warp must call it; only `values` of lanes with
// valid = true are stored.
__device__ __forceinline__ void StoreCodes(const float (&values)[16], bool valid, bool first_of_group,
                                           std::byte* codes, uint8_t* exponent_out) {
  uint32_t top = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const uint32_t magnitude = __float_as_uint(values[i]) & 0x7fffffffu;
    top = magnitude > top ? magnitude : top;
  }
#pragma unroll
  for (int lane = 1; lane < 8; lane *= 2) {
    const uint32_t other = __shfl_xor_sync(~0u, top, lane);
    top = other > top ? other : top;
  }
  if (!valid) return;
  const int exponent = GroupExponent(top);
  uint32_t words[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    words[w] = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) words[w] |= CodeOf(__float_as_uint(values[4 * w + i]), exponent) << (8 * i);
  }
  *reinterpret_cast<uint4*>(codes) = make_uint4(words[0], words[1], words[2], words[3]);
  if (first_of_group) *exponent_out = static_cast<uint8_t>(exponent);
}

__device__ __forceinline__ void StoreBf16(const float (&values)[8], std::byte* to) {
  *reinterpret_cast<uint4*>(to) = make_uint4(PackBf16(values[0], values[1]), PackBf16(values[2], values[3]),
                                             PackBf16(values[4], values[5]), PackBf16(values[6], values[7]));
}

// Stores one row of one plane with the whole warp.
template <typename T>
__device__ __forceinline__ void StoreRow(const CacheForm& form, const CachePlace& place, const T* source,
                                         int lane) {
  constexpr int kLanesOfGroup = 8;
  const int code_lanes = (form.groups * kLanesOfGroup + 31) / 32 * 32;
  for (int unit = lane; unit < code_lanes; unit += 32) {
    const bool valid = unit * 16 < form.coded;
    float values[16] = {};
    if (valid) LoadFloats(source + unit * 16, 16, values);
    StoreCodes(values, valid, unit % kLanesOfGroup == 0, place.row + unit * 16,
               place.exponents + unit / kLanesOfGroup);
  }
  for (int at = form.coded + lane * 8; at < form.width; at += 32 * 8) {
    float values[8];
    LoadFloats(source + at, 8, values);
    StoreBf16(values, place.row + form.coded + (at - form.coded) * 2);
  }
}

__device__ __forceinline__ int BlockOf(const StepTables& tables, int row, int position) {
  return tables.block_tables[static_cast<int64_t>(tables.sequences[row]) * tables.blocks_per_sequence_max +
                             position / kCacheBlockTokens];
}

// Limited by memory bandwidth. A row is read once and written once; there are few rows, so all should be in
// flight.
template <typename T>
__global__ void __launch_bounds__(kWarps * 32) WriteKvKernel(WriteKvArgs<T> args) {
  const bool own_values = args.cache.values.width > 0;
  const int planes = args.cache.heads * (own_values ? 2 : 1);
  const int item = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32);
  const int row = item / planes;
  const int plane = item % planes;
  if (row >= args.rows) return;
  const int position = args.tables.positions[row];
  if (position < 0) return;
  const bool is_value = plane >= args.cache.heads;
  const int head = is_value ? plane - args.cache.heads : plane;
  const CacheForm form = is_value ? args.cache.values : args.cache.keys;
  std::byte* const base = is_value ? ValuePlane(args.cache, head) : KeyPlane(args.cache, head);
  const int64_t offset = (is_value ? args.cache.heads * args.cache.keys.width : 0) + head * form.width;
  StoreRow(form, PlaceOf(form, base, BlockOf(args.tables, row, position), position % kCacheBlockTokens),
           args.source + static_cast<int64_t>(row) * args.stride + offset,
           static_cast<int>(threadIdx.x % 32));
}

template <typename T>
void Launch(const WriteKvArgs<T>& args, Stream stream) {
  const int planes = args.cache.heads * (args.cache.values.width > 0 ? 2 : 1);
  const int blocks = (args.rows * planes + kWarps - 1) / kWarps;
  NUMOE_LAUNCH((WriteKvKernel<T>), (LaunchShape{dim3(blocks), dim3(kWarps * 32)}), stream, args);
}

// One warp for each row. The row passes through shared memory, because its division into rotated pairs
// (interleaved) differs from its division into 16 codes per lane.
__global__ void __launch_bounds__(kWarps * 32) WriteLatentKernel(WriteLatentArgs args) {
  NUMOE_SHARED(float, rows, [kWarps][kWidthMax]);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = static_cast<int>(blockIdx.x) * kWarps + warp;
  if (row >= args.rows) return;
  const int position = args.tables.positions[row];
  if (position < 0) return;
  const CacheForm form = args.cache.keys;
  const Bf16* const in = args.compressed + static_cast<int64_t>(row) * args.stride;
  float* const out = rows[warp];

  float squares = 0;
  for (int at = lane * 8; at < args.latent; at += 32 * 8) {
    LoadFloats(in + at, 8, out + at);
    for (int i = 0; i < 8; ++i) squares += out[at + i] * out[at + i];
  }
  for (int other = 16; other > 0; other /= 2) squares += __shfl_xor_sync(~0u, squares, other);
  const float factor = rsqrtf(squares / static_cast<float>(args.latent) + args.epsilon);
  for (int at = lane * 8; at < args.latent; at += 32 * 8) {
    for (int i = 0; i < 8; ++i) out[at + i] *= factor * args.norm_weight[at + i];
  }

  const int pairs = (form.width - args.latent) / 2;
  for (int pair = lane; pair < pairs; pair += 32) {
    // The angle is reduced to one turn in double: at position 262143 an fp32 product is off by a 60th of a
    // radian.
    constexpr double kTurn = 6.283185307179586476925;
    double angle = static_cast<double>(position) * static_cast<double>(args.inverse_frequencies[pair]);
    angle -= kTurn * rint(angle / kTurn);
    const float cosine = cosf(static_cast<float>(angle)) * args.multiplier;
    const float sine = sinf(static_cast<float>(angle)) * args.multiplier;
    const int first = args.latent + (args.interleaved ? 2 * pair : pair);
    const int second = args.interleaved ? first + 1 : first + pairs;
    const float x0 = ToFloat(in[first]);
    const float x1 = ToFloat(in[second]);
    out[first] = x0 * cosine - x1 * sine;
    out[second] = x1 * cosine + x0 * sine;
  }
  __syncwarp();
  StoreRow(form,
           PlaceOf(form, KeyPlane(args.cache, 0), BlockOf(args.tables, row, position),
                   position % kCacheBlockTokens),
           static_cast<const float*>(out), lane);
}

// One warp for each row, 16 bytes of output per lane.
__global__ void __launch_bounds__(kWarps * 32) GatherKeysKernel(GatherRowsArgs args) {
  const int position = args.begin + static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32);
  if (position >= args.end) return;
  const CacheForm form = args.cache.keys;
  const CachePlace place =
      PlaceOf(form, KeyPlane(args.cache, args.head), args.block_table[position / kCacheBlockTokens],
              position % kCacheBlockTokens);
  Bf16* const out = args.out + static_cast<int64_t>(position - args.begin) * form.width;
  for (int at = static_cast<int>(threadIdx.x % 32) * 8; at < form.width; at += 32 * 8) {
    uint4 value;
    if (at < form.coded) {
      const uint2 codes = *reinterpret_cast<const uint2*>(place.row + at);
      const uint32_t exponent = place.exponents[at / cache_row::kGroup];
      const uint2 low = WidenQuad(codes.x, exponent);
      const uint2 high = WidenQuad(codes.y, exponent);
      value = make_uint4(low.x, low.y, high.x, high.y);
    } else {
      value = *reinterpret_cast<const uint4*>(place.row + form.coded + (at - form.coded) * 2);
    }
    *reinterpret_cast<uint4*>(out + at) = value;
  }
}

}  // namespace

void LaunchWriteKv(const WriteKvArgs<float>& args, Stream stream) { Launch(args, stream); }
void LaunchWriteKv(const WriteKvArgs<Bf16>& args, Stream stream) { Launch(args, stream); }

void LaunchWriteLatent(const WriteLatentArgs& args, Stream stream) {
  NUMOE_LAUNCH(WriteLatentKernel, (LaunchShape{dim3((args.rows + kWarps - 1) / kWarps), dim3(kWarps * 32)}),
               stream, args);
}

void LaunchGatherKeys(const GatherRowsArgs& args, Stream stream) {
  if (args.end <= args.begin) return;
  NUMOE_LAUNCH(GatherKeysKernel,
               (LaunchShape{dim3((args.end - args.begin + kWarps - 1) / kWarps), dim3(kWarps * 32)}), stream,
               args);
}

}  // namespace numoe::execution::cuda
