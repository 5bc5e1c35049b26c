// The functions and macros (words) beyond plain CUDA C++ with which all device code is written.
//
// A kernel's .cu file is compiled twice. nvcc compiles it for the device: words_device.h defines the words as
// thin wrappers and is the only file with PTX. g++ compiles it for the tests, which define the words
// themselves (tests/cuda_host/words_host.h) and run the same grid on fibers, so the logic of every kernel is
// tested without a device. This header includes nothing from the tests: the rule that compiles the host
// version (numoe_cuda_library) includes words_host.h before each source file. Kernels use CUDA's own words
// (threadIdx, __syncthreads, __shfl_xor_sync, atomicAdd on integers, uint4, ...: words_cuda.h lists those
// that the host version has), the words below, and plain C++:
//
// clang-format off
//   NUMOE_SHARED(float, name, [4][32]);      static __shared__ array, 16-byte aligned; no alignas in the type
//   NUMOE_DYNAMIC_SHARED(Bf16, name);        pointer to the launch's dynamic shared memory, 1024-byte aligned
//   NUMOE_LAUNCH((Kernel<64>), shape, stream, arguments...)   arguments are copied; shape is a LaunchShape
//   ToFloat ToBf16 UnpackBf16 PackBf16 UnpackF16              one value, or a pair in 32 bits (first value low)
//   UnpackE4m3 E4m3ToBf16                                     four FP8 values in 32 bits (first value lowest)
//   FmaBf16(a, b, c)                                          a * b + c on BF16 pairs, one rounding
//   AndOr(a, b, c)                                            (a & b) | c
//   FastExp2                                                  approximate: 2 ulp, flushes subnormals
//   LoadStreaming                                             16 bytes that will not be used again
//   LoadAcquireSystem StoreReleaseSystem LoadVolatile         flags of 4 or 8 bytes shared with the host
//   CpAsync<4|8|16>(shared, global[, source_bytes]) CpAsyncCommit CpAsyncWait<groups> CpAsyncWaitAll
//   LdMatrix(uint32_t (&)[1|2|4], row) LdMatrixTrans          8x8 matrices of 16-bit values from shared memory
//   MmaBf16(c[4], a[4], b0, b1)                               m16n8k16, fp32 sums
// clang-format on
//
// A warp's lanes must exit together, and no thread may exit before a later barrier of its block.
#pragma once

#if defined(__CUDACC__)
#include "coordinator/execution/device/cuda/words_device.h"  // IWYU pragma: export
#elif !defined(NUMOE_HOST_WORDS)
#error "The kernels' words are undefined: use nvcc, or declare the .cu file with numoe_cuda_library"
#endif
