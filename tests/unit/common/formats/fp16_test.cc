#include "common/formats/fp16.h"

#include "gtest/gtest.h"
#include "tests/unit/common/formats/minifloat.h"

namespace numoe {
namespace {

constexpr Minifloat kFp16Definition{.mantissa_bits = 10, .exponent_bits = 5};

TEST(Fp16Test, DecodesAllCodes) {
  ExpectDecodesAll(kFp16Definition, [](uint32_t code) { return DecodeF16(code); });
}

TEST(Fp16Test, EncodesToNearestEven) {
  ExpectRoundsToNearestEven(kFp16Definition, [](float value) { return uint32_t{EncodeF16(value)}; });
}

TEST(Fp16Test, EndsOfTheRange) {
  EXPECT_EQ(EncodeF16(65504.0f), 0x7bff);
  EXPECT_EQ(EncodeF16(std::nextafterf(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(EncodeF16(65520.0f), 0x7c00) << "half a step above the largest is infinity";
  EXPECT_EQ(EncodeF16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(EncodeF16(0x1p-25f), 0) << "a tie with zero goes to zero, which is even";
  EXPECT_EQ(EncodeF16(std::nextafterf(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(EncodeF16(-1e-40f), 0x8000) << "fp32 subnormals are zero, with their sign";
  EXPECT_TRUE(std::isnan(DecodeF16(EncodeF16(std::nanf("")))));
}

}  // namespace
}  // namespace numoe
