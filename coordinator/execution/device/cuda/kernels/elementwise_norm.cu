#include <type_traits>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/elementwise.h"
#include "coordinator/execution/device/cuda/kernels/lanes.cuh"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kWarpWidthMax = 1024;  // 32 values per lane in flight; a block computes wider windows

/// The common arguments of RmsNorm and AddRmsNorm; Delta is void if nothing is added.
template <class In, class Delta>
struct NormWork {
  Windows<In> in;
  Windows<const Delta> delta;
  Windows<Bf16> out;
  const float* weight;
  float eps;
  int rows;
  int width;
};

template <class T>
__device__ __forceinline__ T* At(const Windows<T>& windows, int64_t row, int head) {
  return windows.data + row * windows.row_stride + static_cast<int64_t>(head) * windows.stride +
         windows.offset;
}

/// Computes one window with kTeam threads. Each has kChunks lanes of 8 values and loads all of them before it
/// writes any.
template <int kTeam, int kChunks, class In, class Delta, class Sum>
__device__ __forceinline__ void NormWindow(const NormWork<In, Delta>& work, int64_t row, int head, int member,
                                           Sum sum_of_team) {
  In* const in = At(work.in, row, head);
  Lane values[kChunks];
  float squares = 0;
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int column = (chunk * kTeam + member) * kLaneValues;
    if (column >= work.width) continue;
    values[chunk] = LoadLane(in + column);
    if constexpr (!std::is_void_v<Delta>) {
      const Lane delta = LoadLane(At(work.delta, row, head) + column);
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) values[chunk].v[i] += delta.v[i];
      StoreLane(in + column, values[chunk]);
    }
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) squares += values[chunk].v[i] * values[chunk].v[i];
  }
  const float mean = sum_of_team(squares) / static_cast<float>(work.width);
  const float scale = 1.0f / sqrtf(mean + work.eps);
  Bf16* const out = At(work.out, row, head);
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const int column = (chunk * kTeam + member) * kLaneValues;
    if (column >= work.width) continue;
    const Lane weight = LoadLane(work.weight + column);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) values[chunk].v[i] *= scale * weight.v[i];
    StoreLane(out + column, values[chunk]);
  }
}

/// One warp per window.
template <int kChunks, class In, class Delta>
__global__ void __launch_bounds__(kThreads) NormByWarps(NormWork<In, Delta> work) {
  const int64_t window = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (window >= static_cast<int64_t>(work.rows) * work.in.heads) return;
  NormWindow<32, kChunks>(work, window / work.in.heads, static_cast<int>(window % work.in.heads),
                          static_cast<int>(threadIdx.x % 32), [](float value) { return WarpSum(value); });
}

/// One block per window.
template <int kChunks, class In, class Delta>
__global__ void __launch_bounds__(kThreads, 2) NormByBlocks(NormWork<In, Delta> work) {
  NormWindow<kThreads, kChunks>(work, blockIdx.x / work.in.heads,
                                static_cast<int>(blockIdx.x % work.in.heads), static_cast<int>(threadIdx.x),
                                [](float value) { return BlockSum<kWarps>(value); });
}

template <class T>
void CheckWindows(const Windows<T>& windows) {
  NUMOE_CHECK_EQ(windows.row_stride % kLaneValues, 0);
  NUMOE_CHECK_EQ(windows.stride % kLaneValues, 0);
  NUMOE_CHECK_EQ(windows.offset % kLaneValues, 0);
}

template <class In, class Delta>
void LaunchNorm(const NormWork<In, Delta>& work, Stream stream) {
  CheckWindows(work.in);
  CheckWindows(work.out);
  NUMOE_CHECK_EQ(work.in.heads, work.out.heads);
  NUMOE_CHECK_EQ(work.width % kLaneValues, 0);
  NUMOE_CHECK_LE(work.width, kNormWidthMax);
  const unsigned windows = static_cast<unsigned>(work.rows) * static_cast<unsigned>(work.in.heads);
  if (work.width <= kWarpWidthMax) {
    const LaunchShape shape{dim3((windows + kWarps - 1) / kWarps), dim3(kThreads)};
    if (work.width <= 256) return NUMOE_LAUNCH((NormByWarps<1, In, Delta>), shape, stream, work);
    return NUMOE_LAUNCH((NormByWarps<4, In, Delta>), shape, stream, work);
  }
  const LaunchShape shape{dim3(windows), dim3(kThreads)};
  const int chunk = kThreads * kLaneValues;
  if (work.width <= 2 * chunk) return NUMOE_LAUNCH((NormByBlocks<2, In, Delta>), shape, stream, work);
  if (work.width <= 4 * chunk) return NUMOE_LAUNCH((NormByBlocks<4, In, Delta>), shape, stream, work);
  NUMOE_LAUNCH((NormByBlocks<8, In, Delta>), shape, stream, work);
}

template <class T>
void LaunchNormOf(const RmsNormArgs<T>& args, Stream stream) {
  LaunchNorm(NormWork<const T, void>{args.in, {}, args.out, args.weight, args.eps, args.rows, args.width},
             stream);
}

template <class T>
void LaunchNormOf(const AddRmsNormArgs<T>& args, Stream stream) {
  LaunchNorm(NormWork<float, T>{{.data = args.residual, .row_stride = args.width},
                                {.data = args.delta, .row_stride = args.width},
                                {.data = args.out, .row_stride = args.width},
                                args.weight,
                                args.eps,
                                args.rows,
                                args.width},
             stream);
}

}  // namespace

void LaunchRmsNorm(const RmsNormArgs<float>& args, Stream stream) { LaunchNormOf(args, stream); }
void LaunchRmsNorm(const RmsNormArgs<Bf16>& args, Stream stream) { LaunchNormOf(args, stream); }
void LaunchAddRmsNorm(const AddRmsNormArgs<float>& args, Stream stream) { LaunchNormOf(args, stream); }
void LaunchAddRmsNorm(const AddRmsNormArgs<Bf16>& args, Stream stream) { LaunchNormOf(args, stream); }

}  // namespace numoe::execution::cuda
