// The words of coordinator/execution/device/cuda/words.h on the host, without nvcc.
//
// Each word has the name, the arguments and the meaning of the one in words_device.h, where it is described.
// No file includes this header: numoe_cuda_library (NumoeTargets.cmake) makes the compiler include it before
// each .cu file of a host library, and words.h checks by NUMOE_HOST_WORDS that it did.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "common/formats/bf16.h"
#include "common/formats/fp16.h"
#include "common/formats/fp8.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"
#include "tests/cuda_host/async_copy.h"
#include "tests/cuda_host/machine.h"
#include "tests/cuda_host/matrix.h"
#include "tests/cuda_host/schedule.h"
#include "tests/cuda_host/vector_types.h"
#include "tests/cuda_host/words_cuda.h"

#define NUMOE_HOST_WORDS  // for words.h

#define NUMOE_SHARED(type, name, ...)     \
  using name##Storage = type __VA_ARGS__; \
  name##Storage& name = ::numoe::cuda_host::StaticShared<name##Storage>([] {})
#define NUMOE_DYNAMIC_SHARED(type, name) \
  type* name = static_cast<type*>(::numoe::cuda_host::Machine::Current().dynamic_shared())
#define NUMOE_LAUNCH(kernel, shape, stream, ...) \
  ::numoe::cuda_host::Launch(#kernel, &kernel, shape, stream __VA_OPT__(, ) __VA_ARGS__)

namespace numoe::execution::cuda {

struct LaunchShape {
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes = 0;
};

}  // namespace numoe::execution::cuda

namespace numoe::cuda_host {

/// The lambda's type distinguishes variables of the same type.
template <class T, class Variable>
T& StaticShared(Variable) {
  static const int slot = NewSharedSlot(sizeof(T), alignof(T));
  return *static_cast<T*>(Machine::Current().StaticShared(slot));
}

template <class... Parameters, class... Arguments>
void Launch(const char* name, void (*kernel)(Parameters...), const execution::cuda::LaunchShape& shape,
            execution::cuda::Stream stream, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  const std::tuple<std::decay_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  Dispatch(stream, [name, kernel, shape, values] {
    auto body = [&] { std::apply(kernel, values); };
    Machine::Current().Run(
        {name, shape.blocks, shape.threads, shape.shared_bytes},
        [](void* argument) { (*static_cast<decltype(body)*>(argument))(); }, &body);
  });
}

template <class T>
T LoadFlag(const T* address, int order) {
  Machine::Current().Yield();
  return order == __ATOMIC_ACQUIRE ? __atomic_load_n(address, __ATOMIC_ACQUIRE)
                                   : __atomic_load_n(address, __ATOMIC_RELAXED);
}

/// Returns a * b + c in fp32, rounded to odd, so that a later rounding to BF16 is the only effective
/// rounding.
inline float FmaToOdd(float a, float b, float c) {
  const double exact = static_cast<double>(a) * b + c;
  const float near = static_cast<float>(exact);
  if (static_cast<double>(near) == exact || !std::isfinite(near)) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (std::fabs(static_cast<double>(near)) > std::fabs(exact)) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1u);
}

}  // namespace numoe::cuda_host

namespace numoe::execution::cuda {

// --- conversions -------------------------------------------------------------------------------------------

inline float ToFloat(Bf16 value) { return DecodeBf16(value.bits); }
inline Bf16 ToBf16(float value) { return {EncodeBf16(value)}; }
inline float2 UnpackBf16(uint32_t pair) {
  return {DecodeBf16(static_cast<uint16_t>(pair)), DecodeBf16(static_cast<uint16_t>(pair >> 16))};
}
inline uint32_t PackBf16(float low, float high) { return EncodeBf16(low) | uint32_t{EncodeBf16(high)} << 16; }
inline float2 UnpackF16(uint32_t pair) {
  return {DecodeF16(static_cast<uint16_t>(pair)), DecodeF16(static_cast<uint16_t>(pair >> 16))};
}
inline float4 UnpackE4m3(uint32_t four) {
  return {DecodeFp8(static_cast<uint8_t>(four)), DecodeFp8(static_cast<uint8_t>(four >> 8)),
          DecodeFp8(static_cast<uint8_t>(four >> 16)), DecodeFp8(static_cast<uint8_t>(four >> 24))};
}
inline uint2 E4m3ToBf16(uint32_t four) {
  const float4 values = UnpackE4m3(four);
  return {PackBf16(values.x, values.y), PackBf16(values.z, values.w)};
}
inline uint32_t AndOr(uint32_t a, uint32_t b, uint32_t c) { return (a & b) | c; }
inline uint32_t FmaBf16(uint32_t a, uint32_t b, uint32_t c) {
  const float2 x = UnpackBf16(a), y = UnpackBf16(b), z = UnpackBf16(c);
  return PackBf16(cuda_host::FmaToOdd(x.x, y.x, z.x), cuda_host::FmaToOdd(x.y, y.y, z.y));
}

// --- fast arithmetic ---------------------------------------------------------------------------------------

inline float FastExp2(float value) { return std::exp2(value); }

// --- memory ------------------------------------------------------------------------------------------------

inline uint4 LoadStreaming(const uint4* address) { return *address; }
template <class T>
T LoadAcquireSystem(const T* address) {
  return cuda_host::LoadFlag(address, __ATOMIC_ACQUIRE);
}
template <class T>
T LoadVolatile(const T* address) {
  return cuda_host::LoadFlag(address, __ATOMIC_RELAXED);
}
template <class T>
void StoreReleaseSystem(T* address, std::type_identity_t<T> value) {
  __atomic_store_n(address, value, __ATOMIC_RELEASE);
}

template <int kBytes>
void CpAsync(void* shared, const void* global, int source_bytes = kBytes, NUMOE_HERE) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  cuda_host::IssueCopy(shared, global, kBytes, source_bytes, place);
}
inline void CpAsyncCommit() { cuda_host::CommitCopies(); }
template <int kGroups>
void CpAsyncWait() {
  cuda_host::WaitCopies(kGroups);
}
inline void CpAsyncWaitAll() { cuda_host::WaitAllCopies(); }

// --- matrices ----------------------------------------------------------------------------------------------

template <int kMatrices, bool kTransposed>
inline void LdMatrixAny(uint32_t (&result)[kMatrices], const void* row, cuda_host::Place place) {
  const bool passes = cuda_host::PassesMatrixRow(row, kMatrices, place);
  const uint4 values = passes ? *static_cast<const uint4*>(row) : uint4{};
  cuda_host::LoadMatrices(result, values, row, kMatrices, kTransposed, place);
}
template <int kMatrices>
void LdMatrix(uint32_t (&result)[kMatrices], const void* row, NUMOE_HERE) {
  LdMatrixAny<kMatrices, false>(result, row, place);
}
template <int kMatrices>
void LdMatrixTrans(uint32_t (&result)[kMatrices], const void* row, NUMOE_HERE) {
  LdMatrixAny<kMatrices, true>(result, row, place);
}
inline void MmaBf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, NUMOE_HERE) {
  const uint32_t b[2] = {b0, b1};
  cuda_host::MultiplyBf16(c, a, b, place);
}

}  // namespace numoe::execution::cuda
