// The words of words.h on the device: thin wrappers around CUDA intrinsics and PTX, for sm_80 and later.
//
// This is the only file with PTX. Addresses of shared memory are generic pointers everywhere else. The
// meaning of each instruction is defined in PTX ISA 8.x, in the section with its name.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernel_list.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

#define NUMOE_SHARED(type, name, ...) __shared__ __align__(16) type name __VA_ARGS__
#define NUMOE_DYNAMIC_SHARED(type, name)                                        \
  extern __shared__ __align__(1024) unsigned char numoe_dynamic_shared_bytes[]; \
  type* name = reinterpret_cast<type*>(numoe_dynamic_shared_bytes)
#define NUMOE_LAUNCH(kernel, shape, stream, ...) \
  ::numoe::execution::cuda::Launch<&kernel>(#kernel, shape, stream __VA_OPT__(, ) __VA_ARGS__)

namespace numoe::execution::cuda {

struct LaunchShape {
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes = 0;
};

/// CHECKs a launch. An error is a bug in the caller (the shape is wrong for the kernel or the card), or an
/// earlier kernel has failed, after which no work runs.
inline void CheckLaunch(const char* kernel, const char* step, cudaError_t error) {
  NUMOE_CHECK(error == cudaSuccess) << kernel << ", " << step << ": " << cudaGetErrorString(error);
}

template <class... Parameters, class... Arguments>
void LaunchFunction(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, Stream stream,
                    Arguments&&... arguments) {
  constexpr size_t kSharedBytesWithoutAsking = 48 << 10;
  if (shape.shared_bytes > kSharedBytesWithoutAsking) {
    CheckLaunch(name, "shared memory",
                cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shape.shared_bytes)));
  }
  kernel<<<shape.blocks, shape.threads, shape.shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  CheckLaunch(name, "launch, or earlier work", cudaGetLastError());
}

template <auto* kKernel, class... Arguments>
void Launch(const char* name, const LaunchShape& shape, Stream stream, Arguments&&... arguments) {
  static_cast<void>(&kListed<kKernel>);
  LaunchFunction(name, kKernel, shape, stream, static_cast<Arguments&&>(arguments)...);
}

// --- conversions -------------------------------------------------------------------------------------------

__device__ __forceinline__ float ToFloat(Bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
__device__ __forceinline__ Bf16 ToBf16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {bits};
}
__device__ __forceinline__ float2 UnpackBf16(uint32_t pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ float2 UnpackF16(uint32_t pair) {
  float2 values;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(values.x), "=f"(values.y)
      : "r"(pair));
  return values;
}
__device__ __forceinline__ uint32_t FmaBf16(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
/// (a & b) | c in one instruction, even with constants; the compiler needs two for the plain expression.
__device__ __forceinline__ uint32_t AndOr(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
// E4M3 has BF16's layout with 4 exponent bits (bias 7) and 3 mantissa bits. Shifted to the places of BF16's
// bits it is the value times 2^(7 - 127), also for subnormals, and one exact multiplication corrects it. 0x7f
// and 0xff (NaN) read as +-480, but no checkpoint contains them. Works on sm_80, which has no FP8
// instructions.
__device__ __forceinline__ uint2 E4m3ToBf16(uint32_t four) {
  constexpr uint32_t kTwoTo120 = 0x7b807b80u;
  constexpr uint32_t kMinusZero = 0x80008000u;
  const uint32_t low = __byte_perm(four, 0, 0x1404);   // bytes 0 and 1 to the tops of the halves
  const uint32_t high = __byte_perm(four, 0, 0x3424);  // bytes 2 and 3
  const uint32_t low_bits = (low & 0x80008000u) | ((low & 0x7f007f00u) >> 4);
  const uint32_t high_bits = (high & 0x80008000u) | ((high & 0x7f007f00u) >> 4);
  return make_uint2(FmaBf16(low_bits, kTwoTo120, kMinusZero), FmaBf16(high_bits, kTwoTo120, kMinusZero));
}
__device__ __forceinline__ float4 UnpackE4m3(uint32_t four) {
  const uint2 pairs = E4m3ToBf16(four);
  const float2 low = UnpackBf16(pairs.x);
  const float2 high = UnpackBf16(pairs.y);
  return make_float4(low.x, low.y, high.x, high.y);
}

// --- fast arithmetic ---------------------------------------------------------------------------------------

__device__ __forceinline__ float FastExp2(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// --- memory ------------------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
/// Read-only for the whole kernel (ld.global.nc), not kept in L1.
__device__ __forceinline__ uint4 LoadStreaming(const uint4* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(address)));
  return v;
}

__device__ __forceinline__ uint32_t LoadAcquireSystem(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ uint64_t LoadAcquireSystem(const uint64_t* address) {
  uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}
__device__ __forceinline__ void StoreReleaseSystem(uint32_t* address, uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void StoreReleaseSystem(uint64_t* address, uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}
template <class T>
__device__ __forceinline__ T LoadVolatile(const T* address) {
  return *static_cast<const volatile T*>(address);
}

template <int kBytes>
__device__ __forceinline__ void CpAsync(void* shared, const void* global, int source_bytes = kBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if constexpr (kBytes == 16) {  // bypasses L1, because a block reads a tile once
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
                 "l"(__cvta_generic_to_global(global)), "r"(source_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(SharedAddress(shared)),
                 "l"(__cvta_generic_to_global(global)), "n"(kBytes), "r"(source_bytes)
                 : "memory");
  }
}
__device__ __forceinline__ void CpAsyncCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroups>
__device__ __forceinline__ void CpAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}
__device__ __forceinline__ void CpAsyncWaitAll() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// --- matrices ----------------------------------------------------------------------------------------------

template <int kMatrices>
__device__ __forceinline__ void LdMatrix(uint32_t (&r)[kMatrices], const void* row) {
  static_assert(kMatrices == 1 || kMatrices == 2 || kMatrices == 4);
  const uint32_t address = SharedAddress(row);
  if constexpr (kMatrices == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (kMatrices == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
}
template <int kMatrices>
__device__ __forceinline__ void LdMatrixTrans(uint32_t (&r)[kMatrices], const void* row) {
  static_assert(kMatrices == 1 || kMatrices == 2 || kMatrices == 4);
  const uint32_t address = SharedAddress(row);
  if constexpr (kMatrices == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (kMatrices == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
}
__device__ __forceinline__ void MmaBf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace numoe::execution::cuda
