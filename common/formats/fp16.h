// IEEE half precision (binary16) to and from fp32, one value at a time.
//
// Decoding is exact, including subnormals. Encoding rounds to nearest, ties to even. Values of 65520 (half a
// step above the largest value, 65504) or more become infinity, and NaN stays NaN. Vector conversions are
// tested against these functions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace numoe {

inline float DecodeF16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t mantissa = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal: steps of 2^-24
  return sign != 0 ? -magnitude : magnitude;
}

inline uint16_t EncodeF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= std::bit_cast<uint32_t>(65520.0f)) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude <
      std::bit_cast<uint32_t>(0x1p-14f)) {  // rounding up to 1024 steps is the smallest normal value
    const float steps = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f);
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(steps));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);  // keep 10 of 23 mantissa bits
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

}  // namespace numoe
