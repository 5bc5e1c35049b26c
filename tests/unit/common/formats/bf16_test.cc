#include "common/formats/bf16.h"

#include "gtest/gtest.h"
#include "tests/unit/common/formats/minifloat.h"

namespace numoe {
namespace {

constexpr Minifloat kDefinition{.mantissa_bits = 7, .exponent_bits = 8};

TEST(Bf16Test, DecodesAllCodes) {
  ExpectDecodesAll(kDefinition, [](uint32_t code) { return DecodeBf16(code); });
}

TEST(Bf16Test, EncodesToNearestEven) {
  ExpectRoundsToNearestEven(kDefinition, [](float value) { return uint32_t{EncodeBf16(value)}; });
}

TEST(Bf16Test, GoesToInfinityAboveTheLargestAndKeepsNan) {
  const float largest = DecodeBf16(0x7f7f);
  EXPECT_EQ(EncodeBf16(largest), 0x7f7f);
  EXPECT_EQ(EncodeBf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(EncodeBf16(-std::numeric_limits<float>::infinity()), 0xff80);
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0x7fc00000u}) {
    EXPECT_TRUE(std::isnan(DecodeBf16(EncodeBf16(std::bit_cast<float>(bits))))) << bits;
  }
}

}  // namespace
}  // namespace numoe
