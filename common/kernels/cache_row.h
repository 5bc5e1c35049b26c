// A row of the KV cache in FP8: what its bytes mean, in one place for the writer and all readers.
//
// A row is [coded values, a byte each: E4M3 of https://arxiv.org/abs/2209.05433][the other values, BF16]. In
// another place there is an exponent byte for every kGroup coded values. A code with exponent field f > 0 and
// fraction m / 8 means 2^(f + exponent - 127) (1 + m / 8). The scale is a power of two, so a row is widened
// to BF16 exactly, by one addition, and every kernel for BF16 takes it without a further error. Subnormal
// codes are not used (they would mean less than a 16,000th of their group's largest value), and zero is the
// code 0. A group with a value that is not finite becomes NaN as a whole. The error of a value is at most
// 2^-4 of itself, or 2^-14 of its group's largest value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::cache_row {

inline constexpr int kGroup = 128;                  // values that share an exponent, like block FP8 weights
inline constexpr int kExponentMin = 1;              // with 0, fp32's zero would become a code other than 0
inline constexpr int kExponentMax = 239;            // the largest finite BF16 has the exponent field 254
inline constexpr uint8_t kNotFiniteExponent = 240;  // with the code below: exponent field 255, fraction not 0
inline constexpr uint8_t kNotFiniteCode = 0x7f;
inline constexpr int kLargestCode = 0x7e;  // 1.75 * 2^15; 0x7f is E4M3's NaN
inline constexpr int kSmallestCode = 0x08;

static constexpr int Groups(int coded) { return (coded + kGroup - 1) / kGroup; }
/// Returns the bytes of a row's values, without exponents.
static constexpr size_t Bytes(int width, int coded) {
  return static_cast<size_t>(coded) + static_cast<size_t>(width - coded) * sizeof(uint16_t);
}
/// Returns the offset of value `at`. The values before it are coded up to `coded`, and BF16 after that.
static constexpr size_t Offset(int at, int coded) {
  return at < coded ? static_cast<size_t>(at) : Bytes(at, coded);
}

/// Returns the BF16 value of a code.
static constexpr uint16_t Widen(uint8_t code, uint8_t exponent) {
  const uint32_t magnitude = (code & 0x7fu) << 4;
  const uint32_t value = ((code & 0x80u) << 8) | (magnitude + (uint32_t{exponent} << 7));
  return static_cast<uint16_t>(magnitude == 0 ? 0 : value);
}

static_assert(Widen(0x38, 120) == 0x3f80, "code 1.0 at the scale 1 is BF16's 1.0");
static_assert(Widen(kNotFiniteCode, kNotFiniteExponent) == 0x7ff0, "NaN");

}  // namespace numoe::cache_row
