// Conversion of cache rows to and from FP8 codes on the device, several values at a time.
//
// It does the arithmetic of common/kernels/cache_row.h and of NarrowGroup in common/kernels/attention.inc in
// words of 32 bits: every value gets the same code as on the CPU (tests compare all of them). Included by
// kernels only; all arithmetic is in integers, so it needs no FP8 instructions (sm_80 has none).
#pragma once

#include "common/kernels/cache_row.h"
#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {

/// The offsets of the row of `position`, and of its exponents, in a plane.
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

/// Rounds the bits of an fp32 magnitude to its exponent and three bits of fraction, to nearest even.
__device__ __forceinline__ uint32_t RoundToThree(uint32_t magnitude) {
  return (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
}

/// Returns the exponent byte of a group whose largest magnitude has the bits `top`.
__device__ __forceinline__ int GroupExponent(uint32_t top) {
  if (top >= 0x7f800000u) return cache_row::kNotFiniteExponent;
  // Chooses the smallest scale with which the largest value has a code: an exponent field of 15 and a
  // fraction below 7/8.
  const uint32_t rounded = RoundToThree(top);
  const int scale = static_cast<int>(rounded >> 3) - ((rounded & 7u) == 7u ? 14 : 15);
  return scale < cache_row::kExponentMin   ? cache_row::kExponentMin
         : scale > cache_row::kExponentMax ? cache_row::kExponentMax
                                           : scale;
}

__device__ __forceinline__ uint32_t CodeOf(uint32_t bits, int exponent) {
  if (exponent == cache_row::kNotFiniteExponent) return cache_row::kNotFiniteCode;
  int code = static_cast<int>(RoundToThree(bits & 0x7fffffffu)) - (exponent << 3);
  // A value below the smallest code becomes that code if it is nearer to it than to zero.
  code = code < 0 ? 0 : code < cache_row::kSmallestCode ? cache_row::kSmallestCode : code;
  code = code > cache_row::kLargestCode ? cache_row::kLargestCode : code;
  return code == 0 ? 0u : ((bits >> 24) & 0x80u) | static_cast<uint32_t>(code);
}

/// Converts two codes, at bits 0 and 16 of `codes`, to two BF16 at the same places, in eight integer
/// operations: `not_zero` is 128 or 0 for each code, so its product with the exponent adds the exponent only
/// to codes that are not zero.
__device__ __forceinline__ uint32_t WidenPair(uint32_t codes, uint32_t exponent) {
  const uint32_t magnitude = codes & 0x007f007fu;
  const uint32_t not_zero = (magnitude + 0x007f007fu) & 0x00800080u;
  const uint32_t signs = ((codes & 0x00800080u) & not_zero) << 8;
  return signs | ((magnitude << 4) + not_zero * exponent);
}

/// Converts four codes to four BF16.
__device__ __forceinline__ uint2 WidenQuad(uint32_t codes, uint32_t exponent) {
  const uint32_t low = (codes & 0xffu) | ((codes & 0xff00u) << 8);
  const uint32_t high = ((codes >> 16) & 0xffu) | ((codes & 0xff000000u) >> 8);
  return make_uint2(WidenPair(low, exponent), WidenPair(high, exponent));
}

}  // namespace numoe::execution::cuda
