// GGUF blocks of 4 and 6 bits, packed as they are stored: every weight, and every refusal.
#include "common/kernels/ggml_packing.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/kernels/kernels.h"
#include "common/kernels/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/ggml_encode.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

// Returns blocks of random bytes, so that every code, scale and minimum occurs, except those that are not
// finite.
Stored RandomBlocks(WeightFormat format, int rows, int cols, std::mt19937& random) {
  Stored stored = RandomStored(format, rows, cols, random);
  const GgmlTraits& traits = TraitsOf(*GgmlTypeOf(format));
  const int halves = layout::HasMinima(format) ? 2 : format == WeightFormat::kMxfp4 ? 0 : 1;
  for (size_t at = 0; at < stored.data.size(); at += static_cast<size_t>(traits.block_bytes)) {
    std::byte* block = &stored.data[at];
    for (int i = 0; i < traits.block_bytes; ++i) block[i] = static_cast<std::byte>(random());
    const size_t first = format == WeightFormat::kQ6K ? 208 : 0;
    for (int i = 0; i < halves; ++i) block[first + 2 * i + 1] &= std::byte{0xbf};
    if (format == WeightFormat::kMxfp4) block[0] = static_cast<std::byte>(2 + random() % 251);
  }
  return stored;
}

TEST(GgmlPackingTest, GgufBlocksKeepEveryWeightOfASlice) {
  std::mt19937 random(23);
  for (const WeightFormat format : GgufFormats()) {
    const Stored stored = RandomBlocks(format, 200, 768, random);
    std::vector<Rectangle> rectangles = {
        {0, 200, 0, 768}, {128, 72, 256, 96}, {0, 1, 512, 256}, {32, 64, 0, 352}, {5, 33, 256, 512}};
    if (TraitsOf(*GgmlTypeOf(format)).block_values == 32) {
      rectangles.push_back({64, 40, 32, 96});
      rectangles.push_back({3, 32, 736, 32});
    }
    for (const Rectangle& r : rectangles) {
      const absl::StatusOr<Packed> packed = PackRectangle(format, stored.view, r);
      ASSERT_TRUE(packed.ok()) << packed.status();
      std::vector<float> expected(static_cast<size_t>(r.rows) * r.cols);
      DecodeMatrix(stored.view, r.row_begin, r.row_begin + r.rows, r.col_begin, r.col_begin + r.cols,
                   absl::MakeSpan(expected));
      for (int i = 0; i < r.rows * r.cols; ++i) {
        ASSERT_EQ(UnpackWeight(packed->matrix, i / r.cols, i % r.cols), expected[i])
            << WeightFormatName(format) << " [" << i / r.cols << ", " << i % r.cols << "] of the slice at "
            << r.row_begin << ", " << r.col_begin;
      }
    }
  }
}

TEST(GgmlPackingTest, Q4KRefusesOtherBlocksCutsAndFactorsThatAreNotFinite) {
  std::mt19937 random(22);
  Stored q4_k = RandomStored(WeightFormat::kQ4K, 64, 512, random);
  EXPECT_THAT(Refusal(WeightFormat::kQ4K, q4_k.view, {0, 32, 128, 256}),
              HasSubstr("columns 128 to 384 cut the blocks of 256"));
  EXPECT_THAT(Refusal(WeightFormat::kQ4K, q4_k.view, {0, 32, 256, 40}), HasSubstr("columns 256 to 296 cut"));
  MatrixView other = q4_k.view;
  other.ggml = GgmlType::kQ5_K;
  EXPECT_THAT(Refusal(WeightFormat::kQ4K, other, {0, 32, 0, 256}),
              HasSubstr("q4_k needs GGUF's Q4_K blocks"));
  const uint16_t nan = 0x7e00;
  std::memcpy(&q4_k.data[(40 * 2 + 1) * 144 + 2], &nan, sizeof nan);  // dmin of row 40's second block
  EXPECT_THAT(Refusal(WeightFormat::kQ4K, q4_k.view, {0, 64, 0, 512}),
              HasSubstr("block [40, 256] has a factor that is not finite"));
  EXPECT_EQ(Refusal(WeightFormat::kQ4K, q4_k.view, {0, 64, 0, 256}), "packed") << "the block lies outside";
}

TEST(GgmlPackingTest, OtherGgufBlocksRefuseTheSame) {
  std::mt19937 random(24);
  for (const WeightFormat format : GgufFormats()) {
    const GgmlTraits& traits = TraitsOf(*GgmlTypeOf(format));
    Stored stored = RandomStored(format, 64, 512, random);
    const Rectangle whole{0, 64, 0, 512};
    EXPECT_EQ(Refusal(format, stored.view, whole), "packed");
    EXPECT_THAT(Refusal(format, stored.view, {0, 32, 0, 272}), HasSubstr("columns 0 to 272 cut"));
    EXPECT_THAT(Refusal(format, stored.view, {0, 32, traits.block_values / 2, 64}),
                HasSubstr("cut the blocks"));
    MatrixView other = stored.view;
    other.ggml = GgmlType::kQ5_K;
    EXPECT_THAT(Refusal(format, other, whole), HasSubstr(std::string(WeightFormatName(format)) +
                                                         " needs GGUF's " + traits.name + " blocks"));
    // The last factor of row 40's last block - d, minimum or exponent - is not finite.
    const size_t block = static_cast<size_t>((40 + 1) * 512 / traits.block_values - 1) *
                         static_cast<size_t>(traits.block_bytes);
    if (format == WeightFormat::kMxfp4) {
      stored.data[block] = std::byte{253};
    } else {
      const size_t last = layout::HasMinima(format) ? 3 : format == WeightFormat::kQ6K ? 209 : 1;
      stored.data[block + last] = std::byte{0x7c};
    }
    EXPECT_THAT(Refusal(format, stored.view, whole),
                HasSubstr(fmt::format("{} block [40, {}] has a factor that is not finite", traits.name,
                                      512 - traits.block_values)));
    EXPECT_EQ(Refusal(format, stored.view, {0, 40, 0, 512}), "packed") << "the block lies outside";
  }
}

// The two smallest scales of E8M0 are subnormal: their weights, below 2^-122, are held as zeros.
TEST(GgmlPackingTest, Mxfp4sSmallestScalesAreZero) {
  std::mt19937 random(25);
  Stored stored = RandomStored(WeightFormat::kMxfp4, 1, 96, random);
  for (const int exponent : {0, 1, 2})
    stored.data[static_cast<size_t>(exponent) * 17] = static_cast<std::byte>(exponent);
  const Packed packed = Pack(WeightFormat::kMxfp4, stored.view);
  std::vector<float> expected(96);
  DecodeMatrix(stored.view, 0, 1, 0, 96, absl::MakeSpan(expected));
  for (int col = 0; col < 96; ++col) {
    if (col < 64) {
      EXPECT_LT(std::fabs(expected[col]), 0x1p-122f);
    }
    EXPECT_EQ(UnpackWeight(packed.matrix, 0, col), col < 64 ? 0 : expected[col]) << col;
  }
}

TEST(GgmlPackingTest, GgufScaleThatIsNotFiniteIsRefused) {
  std::mt19937 random(21);
  std::vector<std::byte> blocks = EncodeGgml(GgmlType::kQ8_0, RandomFloats(2 * 64, random));
  const uint16_t infinity = 0x7c00;
  std::memcpy(&blocks[3 * 34], &infinity, sizeof infinity);  // row 1, columns 32 to 63
  const MatrixView view{.format = MatrixFormat::kGgml,
                        .rows = 2,
                        .cols = 64,
                        .data = blocks,
                        .scales = {},
                        .ggml = GgmlType::kQ8_0};
  EXPECT_THAT(Refusal(WeightFormat::kInt8, view, {0, 2, 0, 64}), HasSubstr("weight [1, 32] is"));
}

}  // namespace
}  // namespace numoe
