// BF16 to and from fp32, one value at a time.
//
// BF16 is the upper half of an fp32. Encoding rounds to nearest, ties to even, and NaN stays NaN. Decoding is
// exact. Vector kernels have conversions of their own, which are tested against these functions.
#pragma once

#include <bit>
#include <cstdint>

namespace numoe {

inline float DecodeBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t EncodeBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace numoe
