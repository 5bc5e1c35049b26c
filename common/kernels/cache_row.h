// A row of the KV cache in FP8: how its bytes stand for values, in one place for writing and all readers.
//
// [coded values, a byte each: E4M3 of https://arxiv.org/abs/2209.05433][the other values, BF16], and in
// another place an exponent byte for every kGroup coded values. A code with exponent field f > 0 and fraction
// m / 8 stands for 2^(f + exponent - 127) (1 + m / 8): a scale that is a power of two, so that a row widens
// to BF16 exactly, by one addition, and every kernel that takes BF16 takes it without a further error.
// Subnormal codes are not used (they stand for less than a 16,000th of their group's largest value), and zero
// is the code 0. A group with a value that is not finite becomes NaN as a whole. A value is off by 2^-4 of
// itself at most, or by 2^-14 of its group's largest.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::cache_row {

inline constexpr int kGroup = 128;                  // values that share an exponent, as block FP8 weights do
inline constexpr int kExponentMin = 1;              // 0 would make codes of fp32's zero
inline constexpr int kExponentMax = 239;            // the largest finite BF16 has the exponent field 254
inline constexpr uint8_t kNotFiniteExponent = 240;  // with the code below: exponent field 255, fraction not 0
inline constexpr uint8_t kNotFiniteCode = 0x7f;
inline constexpr int kLargestCode = 0x7e;  // 1.75 * 2^15; 0x7f is E4M3's NaN
inline constexpr int kSmallestCode = 0x08;

static constexpr int Groups(int coded) { return (coded + kGroup - 1) / kGroup; }
/// Of a row's values, without exponents.
static constexpr size_t Bytes(int width, int coded) {
  return static_cast<size_t>(coded) + static_cast<size_t>(width - coded) * sizeof(uint16_t);
}
/// Where value `at` begins; the values before it are coded or, from `coded` on, BF16.
static constexpr size_t Offset(int at, int coded) {
  return at < coded ? static_cast<size_t>(at) : Bytes(at, coded);
}

/// BF16 of a code.
static constexpr uint16_t Widen(uint8_t code, uint8_t exponent) {
  const uint32_t magnitude = (code & 0x7fu) << 4;
  const uint32_t value = ((code & 0x80u) << 8) | (magnitude + (uint32_t{exponent} << 7));
  return static_cast<uint16_t>(magnitude == 0 ? 0 : value);
}

static_assert(Widen(0x38, 120) == 0x3f80, "code 1.0 at the scale 1 is BF16's 1.0");
static_assert(Widen(kNotFiniteCode, kNotFiniteExponent) == 0x7ff0, "NaN");

}  // namespace numoe::cache_row
