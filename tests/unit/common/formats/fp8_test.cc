#include "common/formats/fp8.h"

#include "gtest/gtest.h"
#include "tests/unit/common/formats/minifloat.h"

namespace numoe {
namespace {

constexpr Minifloat kFp8Definition{.mantissa_bits = 3, .exponent_bits = 4, .has_infinity = false};

TEST(Fp8Test, DecodesAllCodes) {
  ExpectDecodesAll(kFp8Definition, [](uint32_t code) { return DecodeFp8(code); });
}

TEST(Fp8Test, EncodesToNearestEven) {
  ExpectRoundsToNearestEven(kFp8Definition, [](float value) { return uint32_t{EncodeFp8(value)}; });
}

TEST(Fp8Test, PublishedValues) {
  EXPECT_EQ(DecodeFp8(0x7e), 448.0f);
  EXPECT_EQ(DecodeFp8(0x08), 0x1p-6f);
  EXPECT_EQ(DecodeFp8(0x01), 0x1p-9f);
  EXPECT_EQ(DecodeFp8(0x38), 1.0f);
}

TEST(Fp8Test, SaturatesAndKeepsNan) {
  for (const float big : {448.0f, 464.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(EncodeFp8(big), 0x7e) << big;
    EXPECT_EQ(EncodeFp8(-big), 0xfe) << -big;
  }
  EXPECT_EQ(EncodeFp8(std::nanf("")), 0x7f);
  EXPECT_EQ(EncodeFp8(-std::nanf("")), 0xff);
  EXPECT_EQ(EncodeFp8(-0.0f), 0x80);
  EXPECT_EQ(EncodeFp8(0x1p-10f), 0x00) << "a tie with zero goes to zero, which is even";
}

}  // namespace
}  // namespace numoe
