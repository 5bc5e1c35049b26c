#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/elementwise.h"
#include "coordinator/execution/device/cuda/kernels/lanes.cuh"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFp8Block = 128;

/// Returns the launch for `values` values, with 8 values for each thread.
LaunchShape ShapeFor(int64_t values) {
  const int64_t per_block = int64_t{kThreads} * kLaneValues;
  return {dim3(static_cast<unsigned>((values + per_block - 1) / per_block)), dim3(kThreads)};
}

__device__ __forceinline__ int64_t FirstValue() {
  return (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kLaneValues;
}

__global__ void __launch_bounds__(kThreads) Embed(EmbedArgs args) {
  const int64_t at = FirstValue();
  if (at >= static_cast<int64_t>(args.rows) * args.hidden) return;
  const int row = static_cast<int>(at / args.hidden);
  const int column = static_cast<int>(at % args.hidden);
  const int64_t token = args.tokens[row];
  Lane values{};
  if (token >= 0 && args.bf16 != nullptr) {
    values = LoadLane(args.bf16 + token * args.hidden + column);
  } else if (token >= 0) {
    const uint2 codes = *reinterpret_cast<const uint2*>(args.fp8 + token * args.hidden + column);
    const int scale_columns = (args.hidden + kFp8Block - 1) / kFp8Block;
    const float scale = args.scales[token / kFp8Block * scale_columns + column / kFp8Block];
    const float4 low = UnpackE4m3(codes.x);
    const float4 high = UnpackE4m3(codes.y);
    values = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
    for (float& value : values.v) value *= scale;
  }
  StoreLane(args.out + at, values);
}

__global__ void __launch_bounds__(kThreads) RopeCosSin(RopeCosSinArgs args) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= static_cast<int64_t>(args.rows) * args.pairs) return;
  const int64_t row = at / args.pairs;
  const int pair = static_cast<int>(at % args.pairs);
  const int position = args.positions[row];
  float* const cos_sin = args.cos_sin + row * 2 * args.pairs + pair;
  const double angle = static_cast<double>(position) * args.inverse[pair];
  cos_sin[0] = position < 0 ? 0.0f : static_cast<float>(cos(angle)) * args.multiplier;
  cos_sin[args.pairs] = position < 0 ? 0.0f : static_cast<float>(sin(angle)) * args.multiplier;
}

template <class T>
__device__ __forceinline__ T* WindowOf(const Windows<T>& windows, int64_t row, int head) {
  return windows.data + row * windows.row_stride + static_cast<int64_t>(head) * windows.stride +
         windows.offset;
}

/// A thread rotates 8 pairs: two stretches of 8 channels, contiguous or `pairs` apart.
__global__ void __launch_bounds__(kThreads) Rope(RopeArgs args) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int parts = args.pairs / kLaneValues;
  if (at >= static_cast<int64_t>(args.rows) * args.in.heads * parts) return;
  const int first = static_cast<int>(at % parts) * kLaneValues;
  const int head = static_cast<int>(at / parts % args.in.heads);
  const int64_t row = at / parts / args.in.heads;
  const float* cos_sin = args.cos_sin + row * 2 * args.pairs + first;
  const Lane cosines = LoadLane(cos_sin);
  const Lane sines = LoadLane(cos_sin + args.pairs);
  const int low_at = args.interleaved ? 2 * first : first;
  const int high_at = args.interleaved ? low_at + kLaneValues : first + args.pairs;
  const Bf16* in = WindowOf(args.in, row, head);
  const Lane low = LoadLane(in + low_at);
  const Lane high = LoadLane(in + high_at);
  Lane low_out, high_out;
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i) {
    if (args.interleaved) {
      const Lane& from = i < kLaneValues / 2 ? low : high;
      Lane& to = i < kLaneValues / 2 ? low_out : high_out;
      const int x = 2 * i % kLaneValues;
      to.v[x] = from.v[x] * cosines.v[i] - from.v[x + 1] * sines.v[i];
      to.v[x + 1] = from.v[x + 1] * cosines.v[i] + from.v[x] * sines.v[i];
    } else {
      low_out.v[i] = low.v[i] * cosines.v[i] - high.v[i] * sines.v[i];
      high_out.v[i] = high.v[i] * cosines.v[i] + low.v[i] * sines.v[i];
    }
  }
  Bf16* const out = WindowOf(args.out, row, head);
  StoreLane(out + low_at, low_out);
  StoreLane(out + high_at, high_out);
}

__global__ void __launch_bounds__(kThreads) SiluMul(SiluMulArgs args) {
  const int64_t at = FirstValue();
  if (at >= static_cast<int64_t>(args.rows) * args.width) return;
  const int64_t from = at / args.width * args.in_stride + at % args.width;
  const Lane gate = LoadLane(args.gate + from);
  Lane out = LoadLane(args.up + from);
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i) out.v[i] *= gate.v[i] / (1.0f + __expf(-gate.v[i]));
  StoreLane(args.out + at, out);
}

template <class T>
__global__ void __launch_bounds__(kThreads) Add(float* sum, const T* add, int64_t size) {
  const int64_t at = FirstValue();
  if (at >= size) return;
  Lane values = LoadLane(sum + at);
  const Lane more = LoadLane(add + at);
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i) values.v[i] += more.v[i];
  StoreLane(sum + at, values);
}

template <class In, class Out>
__global__ void __launch_bounds__(kThreads) Convert(const In* in, Out* out, int64_t size) {
  const int64_t at = FirstValue();
  if (at < size) StoreLane(out + at, LoadLane(in + at));
}

__global__ void __launch_bounds__(kThreads) SelectRows(SelectRowsArgs args) {
  const int64_t pieces = args.row_bytes / static_cast<int64_t>(sizeof(uint4));
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= pieces * args.rows) return;
  const int64_t from = args.index[at / pieces];
  const uint4* in = static_cast<const uint4*>(args.in);
  static_cast<uint4*>(args.out)[at] = from < 0 ? make_uint4(0, 0, 0, 0) : in[from * pieces + at % pieces];
}

template <class T>
void CheckWindows(const Windows<T>& windows) {
  NUMOE_CHECK_EQ(windows.row_stride % kLaneValues, 0);
  NUMOE_CHECK_EQ(windows.stride % kLaneValues, 0);
  NUMOE_CHECK_EQ(windows.offset % kLaneValues, 0);
}

}  // namespace

void LaunchEmbed(const EmbedArgs& args, Stream stream) {
  NUMOE_CHECK_EQ(args.hidden % kLaneValues, 0);
  NUMOE_LAUNCH(Embed, ShapeFor(static_cast<int64_t>(args.rows) * args.hidden), stream, args);
}

void LaunchRopeCosSin(const RopeCosSinArgs& args, Stream stream) {
  NUMOE_LAUNCH(RopeCosSin, ShapeFor(static_cast<int64_t>(args.rows) * args.pairs * kLaneValues), stream,
               args);
}

void LaunchRope(const RopeArgs& args, Stream stream) {
  CheckWindows(args.in);
  CheckWindows(args.out);
  NUMOE_CHECK_EQ(args.in.heads, args.out.heads);
  NUMOE_CHECK_EQ(args.pairs % kLaneValues, 0);
  NUMOE_LAUNCH(Rope, ShapeFor(static_cast<int64_t>(args.rows) * args.in.heads * args.pairs), stream, args);
}

void LaunchSiluMul(const SiluMulArgs& args, Stream stream) {
  NUMOE_CHECK_EQ(args.width % kLaneValues, 0);
  NUMOE_CHECK_EQ(args.in_stride % kLaneValues, 0);
  NUMOE_LAUNCH(SiluMul, ShapeFor(static_cast<int64_t>(args.rows) * args.width), stream, args);
}

void LaunchAdd(float* sum, const float* add, int64_t size, Stream stream) {
  NUMOE_CHECK_EQ(size % kLaneValues, 0);
  NUMOE_LAUNCH(Add<float>, ShapeFor(size), stream, sum, add, size);
}
void LaunchAdd(float* sum, const Bf16* add, int64_t size, Stream stream) {
  NUMOE_CHECK_EQ(size % kLaneValues, 0);
  NUMOE_LAUNCH(Add<Bf16>, ShapeFor(size), stream, sum, add, size);
}

void LaunchConvert(const float* in, Bf16* out, int64_t size, Stream stream) {
  NUMOE_CHECK_EQ(size % kLaneValues, 0);
  NUMOE_LAUNCH((Convert<float, Bf16>), ShapeFor(size), stream, in, out, size);
}
void LaunchConvert(const Bf16* in, float* out, int64_t size, Stream stream) {
  NUMOE_CHECK_EQ(size % kLaneValues, 0);
  NUMOE_LAUNCH((Convert<Bf16, float>), ShapeFor(size), stream, in, out, size);
}

void LaunchSelectRows(const SelectRowsArgs& args, Stream stream) {
  NUMOE_CHECK_EQ(args.row_bytes % static_cast<int64_t>(sizeof(uint4)), 0);
  const int64_t pieces = args.row_bytes / static_cast<int64_t>(sizeof(uint4)) * args.rows;
  NUMOE_LAUNCH(SelectRows, ShapeFor(pieces * kLaneValues), stream, args);
}

}  // namespace numoe::execution::cuda
