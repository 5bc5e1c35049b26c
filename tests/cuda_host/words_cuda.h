// CUDA's own functions for code that g++ compiles: qualifiers, indices, barriers, shuffles, votes, atomics,
// bits.
//
// Names and meanings are those of the CUDA C++ programming guide, so that both compilers accept the same
// kernel; included by words_host.h only. Each call passes on its source line for the diagnoses of machine.h.
// Loads of flags and __nanosleep let other threads of the block run, so a spin loop with them ends.
#pragma once

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <thread>

#include "tests/cuda_host/machine.h"
#include "tests/cuda_host/warp.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

#define threadIdx (::numoe::cuda_host::Machine::Current().current().index)
#define blockIdx (::numoe::cuda_host::Machine::Current().block())
#define blockDim (::numoe::cuda_host::Machine::Current().grid().threads)
#define gridDim (::numoe::cuda_host::Machine::Current().grid().blocks)
#define warpSize (::numoe::cuda_host::kWarpLanes)

#define NUMOE_HERE ::numoe::cuda_host::Place place = ::numoe::cuda_host::Place::current()

inline void __syncthreads(NUMOE_HERE) { numoe::cuda_host::Machine::Current().Wait(0, place); }
inline int __syncthreads_count(int vote, NUMOE_HERE) {
  return numoe::cuda_host::Machine::Current().Wait(vote, place);
}
inline int __syncthreads_or(int vote, NUMOE_HERE) {
  return numoe::cuda_host::Machine::Current().Wait(vote, place) != 0;
}
inline int __syncthreads_and(int vote, NUMOE_HERE) {
  return numoe::cuda_host::Machine::Current().Wait(vote == 0, place) == 0;
}
inline void __syncwarp(unsigned mask = ~0u, NUMOE_HERE) {
  using numoe::cuda_host::Machine;
  Machine::Current().Meet(Machine::kSyncwarp, "__syncwarp", mask, nullptr, nullptr, place);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, NUMOE_HERE) {
  return numoe::cuda_host::ShuffleValue(numoe::cuda_host::Shuffle::kIndex, mask, value, lane, width, place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, NUMOE_HERE) {
  return numoe::cuda_host::ShuffleValue(numoe::cuda_host::Shuffle::kXor, mask, value, lanes, width, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32, NUMOE_HERE) {
  return numoe::cuda_host::ShuffleValue(numoe::cuda_host::Shuffle::kDown, mask, value,
                                        static_cast<int>(lanes), width, place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32, NUMOE_HERE) {
  return numoe::cuda_host::ShuffleValue(numoe::cuda_host::Shuffle::kUp, mask, value, static_cast<int>(lanes),
                                        width, place);
}

inline unsigned __ballot_sync(unsigned mask, int vote, NUMOE_HERE) {
  return numoe::cuda_host::ReduceBits(numoe::cuda_host::Reduction::kBallot, "__ballot_sync", mask, vote != 0,
                                      place);
}
inline int __any_sync(unsigned mask, int vote, NUMOE_HERE) {
  return numoe::cuda_host::ReduceBits(numoe::cuda_host::Reduction::kBallot, "__any_sync", mask, vote != 0,
                                      place) != 0;
}
inline int __all_sync(unsigned mask, int vote, NUMOE_HERE) {
  return numoe::cuda_host::ReduceBits(numoe::cuda_host::Reduction::kBallot, "__all_sync", mask, vote == 0,
                                      place) == 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, NUMOE_HERE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return numoe::cuda_host::MatchBits(mask, bits, place);
}
#define NUMOE_REDUCE_WORD(type, word, reduction)                                                         \
  inline type word(unsigned mask, type value, NUMOE_HERE) {                                              \
    return static_cast<type>(numoe::cuda_host::ReduceBits(numoe::cuda_host::Reduction::reduction, #word, \
                                                          mask, static_cast<unsigned>(value), place));   \
  }
NUMOE_REDUCE_WORD(unsigned, __reduce_add_sync, kAdd)
NUMOE_REDUCE_WORD(int, __reduce_add_sync, kAdd)
NUMOE_REDUCE_WORD(unsigned, __reduce_min_sync, kMin)
NUMOE_REDUCE_WORD(int, __reduce_min_sync, kMinSigned)
NUMOE_REDUCE_WORD(unsigned, __reduce_max_sync, kMax)
NUMOE_REDUCE_WORD(int, __reduce_max_sync, kMaxSigned)
NUMOE_REDUCE_WORD(unsigned, __reduce_and_sync, kAnd)
NUMOE_REDUCE_WORD(unsigned, __reduce_or_sync, kOr)
NUMOE_REDUCE_WORD(unsigned, __reduce_xor_sync, kXor)
#undef NUMOE_REDUCE_WORD

// --- atomics: integers only (float sums in the order of arrival are not deterministic) ---------------------

template <class T>
T atomicAdd(T* address, T value) {
  static_assert(std::is_integral_v<T>);
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicOr(T* address, T value) {
  return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicAnd(T* address, T value) {
  return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicExch(T* address, T value) {
  return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicCAS(T* address, T compare, T value) {
  __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}
template <class T>
T atomicMax(T* address, T value) {
  T found = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (found < value &&
         !__atomic_compare_exchange_n(address, &found, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return found;
}
template <class T>
T atomicMin(T* address, T value) {
  T found = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (value < found &&
         !__atomic_compare_exchange_n(address, &found, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return found;
}

inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
/// A spinning grid waits for another OS thread, so this yields the core to it as well.
inline void __nanosleep(unsigned nanoseconds) {
  numoe::cuda_host::Machine::Current().Yield();
  std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
}

// --- arithmetic and bits -----------------------------------------------------------------------------------

template <class T>
T __ldg(const T* address) {
  return *address;
}
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __popcll(unsigned long long bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
/// Returns four of the eight bytes of {high, low}, selected by the nibbles of `selector`.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = selector >> 4 * i & 7;
    result |= static_cast<unsigned>(bytes >> 8 * pick & 0xff) << 8 * i;
  }
  return result;
}
/// Returns sum + the four products of signed bytes.
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(a >> 8 * i) * static_cast<int8_t>(b >> 8 * i);
  return sum;
}
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float value) { return std::exp(value); }
inline float __logf(float value) { return std::log(value); }
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
