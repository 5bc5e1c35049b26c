// What the bits of a small floating-point format mean, computed in double from its definition, and a check of
// encoders.
//
// Independent of the code under test: no bit tricks, only sign, exponent and mantissa put through ldexp. The
// encoder check visits every decision boundary: each value, the midpoint of each pair of neighbours (which
// must go to the even code), and the floats directly beside it. Test code, one thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace numoe {

struct Minifloat {
  int mantissa_bits = 0;
  int exponent_bits = 0;
  bool has_infinity = true;  // false: the "fn" kind, whose all-ones exponent holds numbers and one NaN

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  uint32_t sign() const { return 1u << (bits() - 1); }
  double Value(uint32_t code) const {
    const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
    const int exponent = static_cast<int>(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const bool top = exponent == (1 << exponent_bits) - 1;
    const double sign_factor = (code & sign()) != 0 ? -1.0 : 1.0;
    if (top && has_infinity) {
      return mantissa == 0 ? sign_factor * std::numeric_limits<double>::infinity() : std::nan("");
    }
    if (top && mantissa == (1u << mantissa_bits) - 1) return std::nan("");
    if (exponent == 0) return sign_factor * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign_factor * std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
  }
};

/// Every code decodes to the value of its definition, signed zeros and NaN included.
template <typename Decode>
void ExpectDecodesAll(const Minifloat& format, Decode decode) {
  for (uint32_t code = 0; code < 1u << format.bits(); ++code) {
    const double expected = format.Value(code);
    const float found = decode(code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << "code " << code;
    } else {
      ASSERT_EQ(found, expected) << "code " << code;
      ASSERT_EQ(std::signbit(found), std::signbit(expected)) << "code " << code;
    }
  }
}

/// Every finite value encodes to itself, and everything between two neighbours to the nearest, ties to the
/// even code.
template <typename Encode>
void ExpectRoundsToNearestEven(const Minifloat& format, Encode encode) {
  for (const uint32_t sign : {0u, format.sign()}) {
    for (uint32_t code = sign; std::isfinite(format.Value(code)); ++code) {
      const auto value = static_cast<float>(format.Value(code));
      ASSERT_EQ(encode(value), code);
      const double next = format.Value(code + 1);
      if (!std::isfinite(next)) break;
      const auto middle = static_cast<float>((format.Value(code) + next) / 2);
      if (middle == value) continue;  // fp32 itself has no value between the two
      ASSERT_EQ(encode(middle), code % 2 == 0 ? code : code + 1) << "tie after code " << code;
      ASSERT_EQ(encode(std::nextafterf(middle, value)), code) << "just below the tie after code " << code;
      ASSERT_EQ(encode(std::nextafterf(middle, static_cast<float>(next))), code + 1) << "just above it";
    }
  }
}

}  // namespace numoe
