// Eight values of a row in one thread's registers, and sums over the threads of a warp or a block.
//
// A Lane holds the eight values that a thread loads or stores with 16-byte accesses (one for BF16, two for
// fp32); its values are fp32. Sums are added in a fixed order (butterfly in the warp, then warps in ascending
// order), so they do not depend on the schedule. Included by .cu files only.
#pragma once

#include "coordinator/execution/device/cuda/kernels/stream.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {

inline constexpr int kLaneValues = 8;

struct Lane {
  float v[kLaneValues];
};

__device__ __forceinline__ Lane LoadLane(const float* at) {
  const float4 low = reinterpret_cast<const float4*>(at)[0];
  const float4 high = reinterpret_cast<const float4*>(at)[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
__device__ __forceinline__ Lane LoadLane(const Bf16* at) {
  const uint4 bits = *reinterpret_cast<const uint4*>(at);
  const float2 a = UnpackBf16(bits.x);
  const float2 b = UnpackBf16(bits.y);
  const float2 c = UnpackBf16(bits.z);
  const float2 d = UnpackBf16(bits.w);
  return {{a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y}};
}
__device__ __forceinline__ void StoreLane(float* at, const Lane& lane) {
  reinterpret_cast<float4*>(at)[0] = make_float4(lane.v[0], lane.v[1], lane.v[2], lane.v[3]);
  reinterpret_cast<float4*>(at)[1] = make_float4(lane.v[4], lane.v[5], lane.v[6], lane.v[7]);
}
__device__ __forceinline__ void StoreLane(Bf16* at, const Lane& lane) {
  *reinterpret_cast<uint4*>(at) = make_uint4(PackBf16(lane.v[0], lane.v[1]), PackBf16(lane.v[2], lane.v[3]),
                                             PackBf16(lane.v[4], lane.v[5]), PackBf16(lane.v[6], lane.v[7]));
}

/// Returns the sum over the warp, on all 32 lanes.
__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}

/// Returns the sum over a block of kWarps warps, on all threads. May be called again after a __syncthreads.
template <int kWarps>
__device__ __forceinline__ float BlockSum(float value) {
  NUMOE_SHARED(float, sums, [kWarps]);
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += sums[warp];
  return sum;
}

}  // namespace numoe::execution::cuda
