#include "common/formats/int4.h"

#include <array>
#include <cstring>

#include "gtest/gtest.h"

namespace numoe {
namespace {

// The vector of the format's own library: one word of eight elements.
TEST(Int4Test, PacksThePublishedVector) {
  constexpr std::array<int, 8> kValues = {-8, -1, 0, 7, 1, 2, 3, -5};
  std::array<std::byte, 4> row{};
  for (int k = 0; k < 8; ++k) EncodeInt4(row.data(), k, kValues[k]);
  uint32_t word = 0;
  std::memcpy(&word, row.data(), sizeof word);
  EXPECT_EQ(word, 0x3BA9F870u);
  for (int k = 0; k < 8; ++k) EXPECT_EQ(DecodeInt4(row.data(), k), kValues[k]) << k;
}

TEST(Int4Test, EveryBytePutsElement2bLow) {
  for (int code = 0; code < 256; ++code) {
    const std::array<std::byte, 2> row = {std::byte{0xff}, static_cast<std::byte>(code)};
    EXPECT_EQ(DecodeInt4(row.data(), 2), code % 16 - 8);
    EXPECT_EQ(DecodeInt4(row.data(), 3), code / 16 - 8);
  }
}

TEST(Int4Test, EncodingOneElementLeavesTheOthers) {
  for (int k = 0; k < 8; ++k) {
    for (int value = -8; value <= 7; ++value) {
      std::array<std::byte, 4> row;
      row.fill(std::byte{0x5a});
      const std::array<std::byte, 4> before = row;
      EncodeInt4(row.data(), k, value);
      for (int other = 0; other < 8; ++other) {
        EXPECT_EQ(DecodeInt4(row.data(), other), other == k ? value : DecodeInt4(before.data(), other));
      }
    }
  }
}

}  // namespace
}  // namespace numoe
