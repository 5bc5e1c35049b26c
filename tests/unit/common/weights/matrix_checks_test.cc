// Every scale and code that is NaN or infinite is found, wherever it is, and its position in the whole matrix
// is named.
#include "common/weights/matrix_checks.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/formats/bf16.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

template <typename T>
absl::Span<const std::byte> RawBytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}

TEST(MatrixChecksTest, FindsEveryScaleThatIsNotFinite) {
  constexpr int kRows = 70, kCols = 96;  // more scales than one block of the search
  std::vector<uint16_t> scales(kRows * kCols, EncodeBf16(-2.5f));
  const MatrixView matrix{.format = MatrixFormat::kInt4Group,
                          .rows = kRows,
                          .cols = kCols * 32,
                          .data = {},
                          .scales = RawBytesOf(scales),
                          .scale_dtype = DType::kBF16,
                          .block_rows = 1,
                          .block_cols = 32};
  EXPECT_TRUE(CheckScales(matrix, 0).ok());
  for (const auto& [bits, text] : {std::pair{0x7f80, "inf"}, {0xff80, "-inf"}, {0x7fc1, "nan"}}) {
    for (const size_t at : {size_t{0}, size_t{2047}, size_t{2048}, scales.size() - 1}) {
      scales[at] = static_cast<uint16_t>(bits);
      EXPECT_EQ(CheckScales(matrix, 64).message(), "scale [" + std::to_string(64 + at / kCols) + ", " +
                                                       std::to_string(at % kCols) + "] is " + text +
                                                       ", expected a finite number");
      scales[at] = EncodeBf16(1e38f);
    }
  }
}

TEST(MatrixChecksTest, ScalesOfEveryTypeAndBlock) {
  std::vector<float> floats(6, 3e38f);
  MatrixView matrix{.format = MatrixFormat::kFp8Block,
                    .rows = 256,
                    .cols = 300,
                    .data = {},
                    .scales = RawBytesOf(floats),
                    .block_rows = 128,
                    .block_cols = 128};
  EXPECT_TRUE(CheckScales(matrix, 0).ok());
  floats[5] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(CheckScales(matrix, 384).message(), "scale [4, 2] is -inf, expected a finite number");
  std::vector<uint16_t> halves = {0x7bff, 0x0001, 0, 0, 0, 0};
  matrix.scales = RawBytesOf(halves);
  matrix.scale_dtype = DType::kF16;
  EXPECT_TRUE(CheckScales(matrix, 0).ok());
  halves[1] = 0xfc00;
  EXPECT_EQ(CheckScales(matrix, 0).message(), "scale [0, 1] is -inf, expected a finite number");
}

TEST(MatrixChecksTest, OnlyFp8CodesCanBeNan) {
  std::vector<uint8_t> codes(100 * 100);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i % 127 + i % 2 * 128);
  MatrixView matrix{
      .format = MatrixFormat::kFp8Block, .rows = 100, .cols = 100, .data = RawBytesOf(codes), .scales = {}};
  EXPECT_TRUE(CheckCodes(matrix, 0).ok());
  codes[9'999] = 0x7f;
  EXPECT_EQ(CheckCodes(matrix, 128).message(), "element [227, 99] is NaN, expected a number");
  codes[3] = 0xff;
  EXPECT_EQ(CheckCodes(matrix, 0).message(), "element [0, 3] is NaN, expected a number");
  matrix.format = MatrixFormat::kBF16;
  EXPECT_TRUE(CheckCodes(matrix, 0).ok());
}

}  // namespace
}  // namespace numoe
