// FP8 codes of cache rows on the device: to them and from them, several values at a time.
//
// The arithmetic of common/kernels/cache_row.h and of NarrowGroup in common/kernels/attention.inc in words of
// 32 bits: every value gets the code that the CPU gives it (tests compare all of them). Included by kernels
// only; integers throughout, so it needs no FP8 instructions (sm_80 has none).
#pragma once

#include "common/kernels/cache_row.h"
#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {

/// Where the row of `position` lies in a plane, and its exponents.
struct CachePlace {
  std::byte* row;
  uint8_t* exponents;
};

__device__ __forceinline__ std::byte* KeyPlane(const CacheLayer& layer, int head) {
  return layer.base + static_cast<int64_t>(head) * layer.blocks * layer.keys.block_bytes;
}
__device__ __forceinline__ std::byte* ValuePlane(const CacheLayer& layer, int head) {
  return KeyPlane(layer, layer.heads) + static_cast<int64_t>(head) * layer.blocks * layer.values.block_bytes;
}
__device__ __forceinline__ CachePlace PlaceOf(const CacheForm& form, std::byte* plane, int block, int slot) {
  std::byte* const rows = plane + static_cast<int64_t>(block) * form.block_bytes;
  return {rows + slot * form.row_bytes,
          reinterpret_cast<uint8_t*>(rows + kCacheBlockTokens * form.row_bytes) + slot * form.groups};
}

/// fp32 magnitude bits to its exponent and three bits of fraction, to nearest even.
__device__ __forceinline__ uint32_t RoundToThree(uint32_t magnitude) {
  return (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
}

/// The exponent byte of a group whose largest magnitude has the bits `top`.
__device__ __forceinline__ int GroupExponent(uint32_t top) {
  if (top >= 0x7f800000u) return cache_row::kNotFiniteExponent;
  // The smallest scale under which the largest value is a code: its field is 15, with a fraction below 7/8.
  const uint32_t rounded = RoundToThree(top);
  const int scale = static_cast<int>(rounded >> 3) - ((rounded & 7u) == 7u ? 14 : 15);
  return scale < cache_row::kExponentMin   ? cache_row::kExponentMin
         : scale > cache_row::kExponentMax ? cache_row::kExponentMax
                                           : scale;
}

__device__ __forceinline__ uint32_t CodeOf(uint32_t bits, int exponent) {
  if (exponent == cache_row::kNotFiniteExponent) return cache_row::kNotFiniteCode;
  int code = static_cast<int>(RoundToThree(bits & 0x7fffffffu)) - (exponent << 3);
  // Of what lies below the smallest code its upper half is nearer to that than to zero.
  code = code < 0 ? 0 : code < cache_row::kSmallestCode ? cache_row::kSmallestCode : code;
  code = code > cache_row::kLargestCode ? cache_row::kLargestCode : code;
  return code == 0 ? 0u : ((bits >> 24) & 0x80u) | static_cast<uint32_t>(code);
}

/// Two codes, at bits 0 and 16 of `codes`, to two BF16 at the same places. Eight integer operations: the
/// exponent is added where the magnitude is not zero by a product with a lane's 0 or 128.
__device__ __forceinline__ uint32_t WidenPair(uint32_t codes, uint32_t exponent) {
  const uint32_t magnitude = codes & 0x007f007fu;
  const uint32_t not_zero = (magnitude + 0x007f007fu) & 0x00800080u;
  const uint32_t signs = ((codes & 0x00800080u) & not_zero) << 8;
  return signs | ((magnitude << 4) + not_zero * exponent);
}

/// Four codes to four BF16.
__device__ __forceinline__ uint2 WidenQuad(uint32_t codes, uint32_t exponent) {
  const uint32_t low = (codes & 0xffu) | ((codes & 0xff00u) << 8);
  const uint32_t high = ((codes >> 16) & 0xffu) | ((codes & 0xff000000u) >> 8);
  return make_uint2(WidenPair(low, exponent), WidenPair(high, exponent));
}

}  // namespace numoe::execution::cuda
