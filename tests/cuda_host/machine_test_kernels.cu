#include "coordinator/execution/device/cuda/words.h"
#include "tests/cuda_host/machine_test_kernels.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kThreads = 256;

template <Mistake kMistake>
__global__ void Rotate(const int* in, int* out) {
  NUMOE_SHARED(int, ahead, [kThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.x) * kThreads;
  ahead[thread + (kMistake == Mistake::kSharedOverrun ? 1 : 0)] = in[first + thread];
  if (kMistake == Mistake::kUnwrittenShared && thread % 2 == 0)
    ahead[thread] = ahead[(thread + 2) % kThreads];
  if (kMistake != Mistake::kMissingSyncthreads) __syncthreads();
  const int value = ahead[(thread + 1) % kThreads];
  if (kMistake != Mistake::kMissingSyncBeforeReuse) __syncthreads();
  ahead[thread] = -value;
  __syncthreads();
  out[first + thread] = value + ahead[kThreads - 1 - thread] - ahead[kThreads - 1 - thread];
}

template <Mistake kMistake>
__global__ void WarpSums(const int* in, int* out) {
  NUMOE_SHARED(int, parts, [64]);
  const int thread = static_cast<int>(threadIdx.x);
  int sum = in[thread];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  parts[thread] = in[thread];
  if (kMistake != Mistake::kMissingSyncwarp) __syncwarp();
  int again = 0;
  for (int lane = 0; lane < 32; ++lane) again += parts[thread / 32 * 32 + lane];
  out[thread] = sum == again ? sum : -1;
}

template <Mistake kMistake>
__global__ void CopySums(const int* in, int* out) {
  NUMOE_DYNAMIC_SHARED(int, tiles);  // [2][256]
  NUMOE_SHARED(int, total);
  constexpr int kTile = 256, kTiles = 4;
  const int thread = static_cast<int>(threadIdx.x);  // of 64, 4 ints each
  const int* source = in + blockIdx.x * (kTile * kTiles);
  const auto stage = [&](int tile) {
    const int shift = kMistake == Mistake::kMisalignedCopy ? 1 : 0;
    CpAsync<16>(tiles + tile % 2 * kTile + thread * 4, source + tile * kTile + thread * 4 + shift);
  };
  if (thread == 0) total = 0;
  stage(0);
  CpAsyncCommit();
  int sum = 0;
  for (int tile = 0; tile < kTiles; ++tile) {
    if (tile + 1 < kTiles) stage(tile + 1);
    CpAsyncCommit();
    if (kMistake != Mistake::kMissingCopyWait) CpAsyncWait<1>();
    if (kMistake != Mistake::kMissingBarrierAfterCopy) __syncthreads();
    for (int i = 0; i < 4; ++i) sum += tiles[tile % 2 * kTile + (63 - thread) * 4 + i];
    __syncthreads();
  }
  if (kMistake != Mistake::kCopyNobodyWaitsFor) CpAsyncWaitAll();
  if (kMistake == Mistake::kCopyNobodyWaitsFor) stage(1);
  atomicAdd(&total, sum);
  __syncthreads();
  if (thread == 0) out[blockIdx.x] = total;
}

template <Mistake kMistake>
__global__ void Collective(int* out) {
  const int thread = static_cast<int>(threadIdx.x);  // of 64
  int value = thread;
  if (kMistake == Mistake::kDivergentBarrier) {
    if (thread < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  }
  if (kMistake == Mistake::kSkippedBarrier) {
    if (thread >= 40) return;
    __syncthreads();
  }
  if (kMistake == Mistake::kDeadlock) {
    if (thread < 16) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
  if (kMistake == Mistake::kWrongMask) value = __shfl_sync(0xffffu, value, 0);
  if (kMistake == Mistake::kLaneMissing && thread % 32 != 5) value = __shfl_sync(~0u, value, 0);
  if (kMistake == Mistake::kDivergentShuffle) {
    if (thread % 32 < 16) {
      value = __shfl_sync(~0u, value, 0);
    } else {
      value = __shfl_sync(~0u, value, 1);
    }
  }
  out[thread] = value;
}

__global__ void WarpWords(const int* in, int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const int value = in[lane];
  constexpr unsigned kAll = ~0u;
  int word = 0;
  const auto put = [&](int result) { out[word++ * 32 + lane] = result; };
  put(__shfl_sync(kAll, value, lane + 3, 8));
  put(__shfl_xor_sync(kAll, value, 5));
  put(__shfl_down_sync(kAll, value, 2, 16));
  put(__shfl_up_sync(kAll, value, 3));
  put(static_cast<int>(__ballot_sync(kAll, value > 0)));
  put(__any_sync(kAll, value == in[7]));
  put(__all_sync(kAll, value == in[7]));
  put(__reduce_add_sync(kAll, value));
  put(__reduce_min_sync(kAll, value));
  put(__reduce_max_sync(kAll, value));
  put(static_cast<int>(__reduce_max_sync(kAll, static_cast<unsigned>(value))));
  put(static_cast<int>(__match_any_sync(kAll, value % 3)));
  put(__syncthreads_count(value > 0));
  const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
  put(__reduce_add_sync(half, value));
}

__global__ void WaitForFlag(const uint32_t* flag, uint32_t* answer) {
  if (threadIdx.x == 0) {
    while (LoadAcquireSystem(flag) != 1) __nanosleep(100);
  }
  __syncthreads();
  if (threadIdx.x == 1) StoreReleaseSystem(answer, 7);
}

__global__ void Indices(int* out) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  atomicAdd(&out[block * 64 + thread], static_cast<int>(block * 1000 + thread));
}

template <int kBytes>
__global__ void Shares(int* out) {
  NUMOE_SHARED(unsigned char, bytes, [kBytes]);
  bytes[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
  out[threadIdx.x] = bytes[threadIdx.x];
}

}  // namespace

#define NUMOE_LAUNCH_MISTAKE(kernel, mistake, shape, stream, ...) \
  case Mistake::mistake:                                          \
    return NUMOE_LAUNCH((kernel<Mistake::mistake>), shape, stream, __VA_ARGS__)

void LaunchRotate(Mistake mistake, const int* in, int* out, int blocks, Stream stream) {
  const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
  switch (mistake) {
    NUMOE_LAUNCH_MISTAKE(Rotate, kMissingSyncthreads, shape, stream, in, out);
    NUMOE_LAUNCH_MISTAKE(Rotate, kMissingSyncBeforeReuse, shape, stream, in, out);
    NUMOE_LAUNCH_MISTAKE(Rotate, kUnwrittenShared, shape, stream, in, out);
    NUMOE_LAUNCH_MISTAKE(Rotate, kSharedOverrun, shape, stream, in, out);
    default:
      return NUMOE_LAUNCH((Rotate<Mistake::kNone>), shape, stream, in, out);
  }
}

void LaunchWarpSums(Mistake mistake, const int* in, int* out) {
  const LaunchShape shape{dim3(1), dim3(64)};
  switch (mistake) {
    NUMOE_LAUNCH_MISTAKE(WarpSums, kMissingSyncwarp, shape, nullptr, in, out);
    default:
      return NUMOE_LAUNCH((WarpSums<Mistake::kNone>), shape, nullptr, in, out);
  }
}

void LaunchCopySums(Mistake mistake, const int* in, int* out, int blocks) {
  const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), dim3(64), 2 * 256 * sizeof(int)};
  switch (mistake) {
    NUMOE_LAUNCH_MISTAKE(CopySums, kMissingCopyWait, shape, nullptr, in, out);
    NUMOE_LAUNCH_MISTAKE(CopySums, kMissingBarrierAfterCopy, shape, nullptr, in, out);
    NUMOE_LAUNCH_MISTAKE(CopySums, kMisalignedCopy, shape, nullptr, in, out);
    NUMOE_LAUNCH_MISTAKE(CopySums, kCopyNobodyWaitsFor, shape, nullptr, in, out);
    default:
      return NUMOE_LAUNCH((CopySums<Mistake::kNone>), shape, nullptr, in, out);
  }
}

void LaunchCollective(Mistake mistake, int* out) {
  const LaunchShape shape{dim3(1), dim3(64)};
  switch (mistake) {
    NUMOE_LAUNCH_MISTAKE(Collective, kDivergentBarrier, shape, nullptr, out);
    NUMOE_LAUNCH_MISTAKE(Collective, kSkippedBarrier, shape, nullptr, out);
    NUMOE_LAUNCH_MISTAKE(Collective, kDeadlock, shape, nullptr, out);
    NUMOE_LAUNCH_MISTAKE(Collective, kWrongMask, shape, nullptr, out);
    NUMOE_LAUNCH_MISTAKE(Collective, kLaneMissing, shape, nullptr, out);
    NUMOE_LAUNCH_MISTAKE(Collective, kDivergentShuffle, shape, nullptr, out);
    default:
      return NUMOE_LAUNCH((Collective<Mistake::kNone>), shape, nullptr, out);
  }
}

void LaunchWarpWords(const int* in, int* out) {
  NUMOE_LAUNCH(WarpWords, (LaunchShape{dim3(1), dim3(32)}), nullptr, in, out);
}

void LaunchWaitForFlag(const uint32_t* flag, uint32_t* answer) {
  NUMOE_LAUNCH(WaitForFlag, (LaunchShape{dim3(1), dim3(64)}), nullptr, flag, answer);
}

void LaunchShares(size_t dynamic_bytes, int* out) {
  NUMOE_LAUNCH((Shares<(32 << 10)>), (LaunchShape{dim3(1), dim3(32), dynamic_bytes}), nullptr, out);
}

void LaunchIndices(int* out) {
  NUMOE_LAUNCH(Indices, (LaunchShape{dim3(2, 3), dim3(4, 8, 2)}), nullptr, out);
}

}  // namespace numoe::execution::cuda
