// FP8 E4M3FN to and from fp32: bias 7, no infinities, largest value 448, NaN is 0x7f and 0xff.
//
// Source: FP8 Formats for Deep Learning, https://arxiv.org/abs/2209.05433 (the "fn" variant that PyTorch and
// the published block-FP8 checkpoints use). Decoding is exact; encoding rounds to nearest even and saturates
// at 448.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace numoe {

constexpr float DecodeFp8Slow(uint8_t bits) {
  const int exponent = (bits >> 3) & 15;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  float magnitude = exponent == 0 ? static_cast<float>(mantissa) : static_cast<float>(mantissa + 8);
  for (int e = exponent == 0 ? 1 : exponent; e > 10; --e) magnitude *= 2;
  for (int e = exponent == 0 ? 1 : exponent; e < 10; ++e) magnitude /= 2;
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

inline constexpr std::array<float, 256> kFp8Values = [] {
  std::array<float, 256> values{};
  for (int i = 0; i < 256; ++i) values[i] = DecodeFp8Slow(static_cast<uint8_t>(i));
  return values;
}();

static_assert(kFp8Values[0x7e] == 448.0f && kFp8Values[0x08] == 0x1p-6f && kFp8Values[0x01] == 0x1p-9f);
inline float DecodeFp8(uint8_t bits) { return kFp8Values[bits]; }

inline uint8_t EncodeFp8(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7f;
  const float magnitude = std::fabs(value);
  if (magnitude >= 448.0f) return sign | 0x7e;
  if (magnitude < 0x1p-6f) {  // subnormal: steps of 2^-9; rounding up to 8 steps is the smallest normal
    return sign | static_cast<uint8_t>(std::nearbyint(magnitude * 0x1p9f));
  }
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = bits + 0x7ffffu + ((bits >> 20) & 1u);  // keep 3 of 23 mantissa bits
  const uint32_t code = (rounded >> 20) - ((127u - 7u) << 3);
  return sign | static_cast<uint8_t>(code > 0x7e ? 0x7e : code);
}

}  // namespace numoe
