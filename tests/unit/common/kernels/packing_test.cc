// Packs and reads back: lossless formats bit for bit, quantised ones within their bound, and refusals with
// their messages.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/formats/bf16.h"
#include "common/kernels/kernels.h"
#include "common/kernels/layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/ggml_encode.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Rectangles as slices have them: whole, at ragged ends, and with columns that are a multiple of 32 but not
// of 64.
TEST(PackMatrixTest, LosslessFormatsKeepEveryWeightOfASlice) {
  std::mt19937 random(14);
  for (const WeightFormat format : {WeightFormat::kRawInt4, WeightFormat::kBf16, WeightFormat::kFp8}) {
    const Stored stored = RandomStored(format, 200, 352, random);
    for (const Rectangle& r : {Rectangle{0, 200, 0, 352},
                               {128, 72, 0, 96},
                               {0, 1, 256, 96},
                               {32, 64, 64, 160},
                               {64, 96, 64, 256}}) {
      const absl::StatusOr<Packed> packed = PackRectangle(format, stored.view, r);
      ASSERT_TRUE(packed.ok()) << packed.status();
      std::vector<float> expected(static_cast<size_t>(r.rows) * r.cols);
      DecodeMatrix(stored.view, r.row_begin, r.row_begin + r.rows, r.col_begin, r.col_begin + r.cols,
                   absl::MakeSpan(expected));
      for (int row = 0; row < r.rows; ++row) {
        for (int col = 0; col < r.cols; ++col) {
          ASSERT_EQ(UnpackWeight(packed->matrix, row, col), expected[static_cast<size_t>(row) * r.cols + col])
              << WeightFormatName(format) << " [" << row << ", " << col << "] of the slice at " << r.row_begin
              << ", " << r.col_begin;
        }
      }
    }
  }
}

// GGUF's formats with codes times one scale keep both, even if a slice begins inside a block of 256.
TEST(PackMatrixTest, Int8HoldsGgufCodesExactly) {
  std::mt19937 random(20);
  const std::vector<float> source = RandomFloats(64 * 512, random);
  for (const GgmlType type : {GgmlType::kQ4_0, GgmlType::kQ5_0, GgmlType::kQ8_0, GgmlType::kIq4Nl,
                              GgmlType::kIq4Xs, GgmlType::kMxfp4}) {
    const std::vector<std::byte> blocks = EncodeGgml(type, source);
    const MatrixView view{
        .format = MatrixFormat::kGgml, .rows = 64, .cols = 512, .data = blocks, .scales = {}, .ggml = type};
    for (const Rectangle& r : {Rectangle{0, 64, 0, 512}, {32, 32, 96, 352}, {3, 1, 480, 32}}) {
      const absl::StatusOr<Packed> packed = PackRectangle(WeightFormat::kInt8, view, r);
      ASSERT_TRUE(packed.ok()) << packed.status();
      std::vector<float> expected(static_cast<size_t>(r.rows) * r.cols);
      DecodeMatrix(view, r.row_begin, r.row_begin + r.rows, r.col_begin, r.col_begin + r.cols,
                   absl::MakeSpan(expected));
      for (int i = 0; i < r.rows * r.cols; ++i) {
        ASSERT_EQ(UnpackWeight(packed->matrix, i / r.cols, i % r.cols), expected[i])
            << TraitsOf(type).name << " [" << i / r.cols << ", " << i % r.cols << "] of the slice at "
            << r.col_begin;
      }
    }
  }
}

TEST(PackMatrixTest, Bf16RoundsFp32ToNearestEven) {
  const float source[4] = {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 1.0f + 0x1p-8f + 0x1p-20f, -3.14159265f};
  const float expected[4] = {1.0f, 1.0f + 0x1p-6f, 1.0f + 0x1p-7f, -3.140625f};
  MatrixView view{.format = MatrixFormat::kF32, .rows = 1, .cols = 4, .data = {}, .scales = {}};
  view.data = absl::MakeSpan(reinterpret_cast<const std::byte*>(source), sizeof source);
  const Packed packed = Pack(WeightFormat::kBf16, view);
  for (int col = 0; col < 4; ++col) EXPECT_EQ(UnpackWeight(packed.matrix, 0, col), expected[col]) << col;
}

TEST(PackMatrixTest, EveryStoredFormatQuantises) {
  std::mt19937 random(18);
  const std::vector<std::byte> blocks = EncodeGgml(GgmlType::kQ4_K, RandomFloats(32 * 256, random));
  const Stored int4 = RandomStored(WeightFormat::kRawInt4, 32, 128, random);
  const Stored fp8 = RandomStored(WeightFormat::kFp8, 32, 128, random);
  const MatrixView q4_k{.format = MatrixFormat::kGgml,
                        .rows = 32,
                        .cols = 256,
                        .data = blocks,
                        .scales = {},
                        .ggml = GgmlType::kQ4_K};
  for (const MatrixView& view : {int4.view, fp8.view, q4_k}) {
    std::vector<float> w(32 * 128);
    DecodeMatrix(view, 0, 32, 0, 128, absl::MakeSpan(w));
    const Packed int8 = *PackRectangle(WeightFormat::kInt8, view, {0, 32, 0, 128});
    for (int i = 0; i < 32 * 128; ++i) {
      float top = 0;
      for (int k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) top = std::max(top, std::fabs(w[k]));
      ASSERT_LE(std::fabs(UnpackWeight(int8.matrix, i / 128, i % 128) - w[i]), top / 254 * 1.001);
    }
  }
}

TEST(PackMatrixTest, GroupsOfZerosStayZero) {
  const std::vector<std::byte> zeros(32 * 64 * 2);
  const MatrixView view{.format = MatrixFormat::kBF16, .rows = 32, .cols = 64, .data = zeros, .scales = {}};
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    EXPECT_EQ(UnpackWeight(Pack(format, view).matrix, 31, 63), 0.0f) << WeightFormatName(format);
  }
}

TEST(PackMatrixTest, QuantisedFormatsAreWithinHalfAStep) {
  std::mt19937 random(15);
  const Stored stored = RandomStored(WeightFormat::kBf16, 32, 64, random);
  std::vector<float> w(32 * 64);
  DecodeMatrix(stored.view, 0, 32, 0, 64, absl::MakeSpan(w));
  const Packed int8 = Pack(WeightFormat::kInt8, stored.view);
  const Packed int4 = Pack(WeightFormat::kInt4, stored.view);
  for (int r = 0; r < 32; ++r) {
    for (int g = 0; g < 64; g += 32) {
      float top = 0;
      for (int k = 0; k < 32; ++k) top = std::max(top, std::fabs(w[r * 64 + g + k]));
      double squares4 = 0, plain4 = 0;
      for (int k = g; k < g + 32; ++k) {
        ASSERT_LE(std::fabs(UnpackWeight(int8.matrix, r, k) - w[r * 64 + k]), top / 254 * 1.001);
        squares4 += std::pow(UnpackWeight(int4.matrix, r, k) - w[r * 64 + k], 2);
        const float scale = DecodeBf16(EncodeBf16(top / 7));
        plain4 += std::pow(std::nearbyint(w[r * 64 + k] / scale) * scale - w[r * 64 + k], 2);
      }
      EXPECT_LE(squares4, plain4 * 1.0001) << "the fitted scale is worse than the plain one";
    }
  }
}

// The best of twelve clippings is taken, whatever the weights' magnitude. The test computes it in double, by
// division.
TEST(PackMatrixTest, Int4TakesTheClippingWithTheSmallestSquaredError) {
  std::mt19937 random(17);
  std::vector<float> w = RandomFloats(64 * 64, random);
  for (size_t row = 0; row < 64; ++row) {  // from 2^-128, whose scales are subnormal, to 2^124
    for (size_t k = 0; k < 64; ++k)
      w[row * 64 + k] = std::ldexp(w[row * 64 + k], static_cast<int>(row) * 4 - 128);
  }
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(w.data()),
                                          w.size() * sizeof(float));
  const Packed packed =
      Pack(WeightFormat::kInt4,
           {.format = MatrixFormat::kF32, .rows = 64, .cols = 64, .data = bytes, .scales = {}});
  for (int first = 0; first < 64 * 64; first += 32) {
    double top = 0, squares = 0, least = std::numeric_limits<double>::infinity();
    for (int i = first; i < first + 32; ++i) {
      top = std::max(top, std::fabs(static_cast<double>(w[i])));
      squares += std::pow(static_cast<double>(UnpackWeight(packed.matrix, i / 64, i % 64)) - w[i], 2);
    }
    for (int clipping = 0; clipping < 12; ++clipping) {
      const double scale =
          DecodeBf16(EncodeBf16(static_cast<float>(top) / (7.0f + 0.15f * static_cast<float>(clipping))));
      double error = 0;
      for (int i = first; i < first + 32; ++i)
        error += std::pow(std::clamp(std::nearbyint(w[i] / scale), -8.0, 7.0) * scale - w[i], 2);
      least = std::min(least, error);
    }
    EXPECT_NEAR(squares / least, 1, 1e-5) << "row " << first / 64;
  }
}

TEST(PackMatrixTest, RefusesMatricesThatAFormatCannotHold) {
  std::mt19937 random(16);
  const Stored bf16 = RandomStored(WeightFormat::kBf16, 64, 128, random);
  EXPECT_THAT(Refusal(WeightFormat::kRawInt4, bf16.view, {0, 64, 0, 128}),
              HasSubstr("raw_int4 needs pack-quantized INT4"));
  EXPECT_THAT(Refusal(WeightFormat::kFp8, bf16.view, {0, 64, 0, 128}), HasSubstr("fp8 needs block-FP8"));
}

TEST(PackMatrixTest, RefusesToCutGroupsAndBlocks) {
  std::mt19937 random(17);
  const Stored bf16 = RandomStored(WeightFormat::kBf16, 64, 128, random);
  const Stored int4 = RandomStored(WeightFormat::kRawInt4, 64, 128, random);
  const Stored fp8 = RandomStored(WeightFormat::kFp8, 256, 256, random);
  EXPECT_THAT(Refusal(WeightFormat::kInt4, bf16.view, {0, 64, 16, 64}),
              HasSubstr("columns 16 to 80 cut the groups of 32"));
  EXPECT_THAT(Refusal(WeightFormat::kInt8, bf16.view, {0, 64, 0, 48}),
              HasSubstr("columns 0 to 48 cut the groups of 32"));
  EXPECT_THAT(Refusal(WeightFormat::kRawInt4, int4.view, {0, 64, 0, 80}), HasSubstr("cut the groups of 32"));
  EXPECT_THAT(Refusal(WeightFormat::kFp8, fp8.view, {16, 64, 0, 128}),
              AllOf(HasSubstr("begins at row 16 column 0"), HasSubstr("128 x 128 scale blocks of fp8")));
  EXPECT_THAT(Refusal(WeightFormat::kFp8, fp8.view, {0, 64, 32, 128}),
              HasSubstr("begins at row 0 column 32"));
}

TEST(PackMatrixTest, RefusesToQuantiseValuesThatAreNotFinite) {
  std::mt19937 random(19);
  Stored bf16 = RandomStored(WeightFormat::kBf16, 64, 64, random);
  const uint16_t nan = EncodeBf16(std::numeric_limits<float>::quiet_NaN());
  std::memcpy(&bf16.data[(40 * 64 + 33) * 2], &nan, sizeof nan);
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    EXPECT_THAT(Refusal(format, bf16.view, {32, 32, 0, 64}),
                AllOf(HasSubstr("weight [40, 33] is nan"), HasSubstr(WeightFormatName(format))));
    EXPECT_EQ(Refusal(format, bf16.view, {0, 32, 0, 64}), "packed") << "the NaN lies outside";
  }
}

// Other tools may map this layout into memory, so a change of these bytes is a change of the format.
TEST(LayoutTest, BytesPerMatrix) {
  EXPECT_EQ(PackedBytes(WeightFormat::kRawInt4, 2048, 7168), 2048ull * 7168 * 9 / 16);
  EXPECT_EQ(PackedBytes(WeightFormat::kInt4, 2048, 7168), 2048ull * 7168 * 9 / 16);
  EXPECT_EQ(PackedBytes(WeightFormat::kInt8, 2048, 7168), 2048ull * 7168 * 9 / 8);
  EXPECT_EQ(PackedBytes(WeightFormat::kBf16, 2048, 7168), 2048ull * 7168 * 2);
  EXPECT_EQ(PackedBytes(WeightFormat::kFp8, 2048, 7168), 2048ull * 7168 + 64 * (7168 / 64 * 4));
  EXPECT_EQ(PackedBytes(WeightFormat::kQ4K, 2048, 7168), 2048ull * 7168 * 9 / 16 + 64 * (7168 / 256 * 128));
  EXPECT_EQ(PackedBytes(WeightFormat::kQ4_0, 2048, 7168), 2048ull * 7168 * 18 / 32);
  EXPECT_EQ(PackedBytes(WeightFormat::kQ4_1, 2048, 7168), 2048ull * 7168 * 20 / 32);
  EXPECT_EQ(PackedBytes(WeightFormat::kIq4Nl, 2048, 7168), 2048ull * 7168 * 18 / 32);
  EXPECT_EQ(PackedBytes(WeightFormat::kIq4Xs, 2048, 7168), 2048ull * 7168 * 17 / 32 + 64 * (7168 / 256 * 64));
  EXPECT_EQ(PackedBytes(WeightFormat::kMxfp4, 2048, 7168), 2048ull * 7168 * 17 / 32);
  EXPECT_EQ(PackedBytes(WeightFormat::kQ6K, 2048, 7168), 2048ull * 7168 * 210 / 256);
  EXPECT_EQ(PackedBytes(WeightFormat::kBf16, 33, 65), 2u * 2 * 4096) << "both sizes round up";
}

}  // namespace
}  // namespace numoe
