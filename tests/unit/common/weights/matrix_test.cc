// Compares DecodeMatrix with the definitions of each format's publishers, computed here from the original
// values.
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/formats/bf16.h"
#include "common/formats/fp16.h"
#include "common/formats/fp8.h"
#include "common/formats/int4.h"
#include "common/weights/checkpoint.h"
#include "gtest/gtest.h"
#include "tests/support/ggml_encode.h"

namespace numoe {
namespace {

template <typename T>
void Append(std::vector<std::byte>& bytes, T value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

// Decodes all of `m` and rectangles at odd places, and compares with `expected(row, col)`.
template <typename Expected>
void ExpectDecodes(const MatrixView& m, Expected expected) {
  const int64_t rows[] = {0, m.rows / 3, m.rows - 1, m.rows};
  const int64_t cols[] = {0, 1, m.cols / 2, m.cols - 1, m.cols};
  for (const int64_t r0 : rows) {
    for (const int64_t r1 : rows) {
      for (const int64_t c0 : cols) {
        for (const int64_t c1 : cols) {
          if (r0 > r1 || c0 > c1) continue;
          std::vector<float> out((r1 - r0) * (c1 - c0));
          DecodeMatrix(m, r0, r1, c0, c1, absl::MakeSpan(out));
          for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
            const int64_t row = r0 + i / (c1 - c0), col = c0 + i % (c1 - c0);
            ASSERT_EQ(out[i], expected(row, col)) << "[" << row << ", " << col << "]";
          }
        }
      }
    }
  }
}

TEST(DecodeMatrixTest, PlainFormatsFromUnalignedData) {
  constexpr int64_t kRows = 5, kCols = 7;
  const auto value = [](int64_t r, int64_t c) {
    return static_cast<float>(r * kCols + c) / 4 - 3;
  };  // exact in all
  for (const MatrixFormat format : {MatrixFormat::kF32, MatrixFormat::kF16, MatrixFormat::kBF16}) {
    std::vector<std::byte> bytes(1);  // safetensors promises no alignment
    for (int64_t i = 0; i < kRows * kCols; ++i) {
      const float x = value(i / kCols, i % kCols);
      if (format == MatrixFormat::kF32) Append(bytes, x);
      if (format == MatrixFormat::kF16) Append(bytes, EncodeF16(x));
      if (format == MatrixFormat::kBF16) Append(bytes, EncodeBf16(x));
    }
    ExpectDecodes({.format = format,
                   .rows = kRows,
                   .cols = kCols,
                   .data = absl::MakeConstSpan(bytes).subspan(1),
                   .scales = {}},
                  value);
  }
}

class DecodeFp8Test : public ::testing::TestWithParam<DType> {};

TEST_P(DecodeFp8Test, BlocksAreRaggedAtBothEdges) {
  constexpr int64_t kRows = 130, kCols = 260;  // 2 x 3 blocks, the last of 2 rows and 4 columns
  std::vector<std::byte> bytes, scales(1);
  const auto code = [](int64_t r, int64_t c) { return static_cast<uint8_t>((r * 31 + c * 7) % 127); };
  const auto scale = [](int64_t block_row, int64_t block_col) {
    return 0.25f * static_cast<float>(1 + block_row * 3 + block_col);
  };
  for (int64_t i = 0; i < kRows * kCols; ++i) Append(bytes, code(i / kCols, i % kCols));
  for (int i = 0; i < 6; ++i) {
    if (GetParam() == DType::kF32) Append(scales, scale(i / 3, i % 3));
    if (GetParam() == DType::kBF16) Append(scales, EncodeBf16(scale(i / 3, i % 3)));
    if (GetParam() == DType::kF16) Append(scales, EncodeF16(scale(i / 3, i % 3)));
  }
  ExpectDecodes({.format = MatrixFormat::kFp8Block,
                 .rows = kRows,
                 .cols = kCols,
                 .data = bytes,
                 .scales = absl::MakeConstSpan(scales).subspan(1),
                 .scale_dtype = GetParam(),
                 .block_rows = 128,
                 .block_cols = 128},
                [&](int64_t r, int64_t c) { return DecodeFp8(code(r, c)) * scale(r / 128, c / 128); });
}

INSTANTIATE_TEST_SUITE_P(Scales, DecodeFp8Test, ::testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& test) { return std::string(DTypeName(test.param)); });

TEST(DecodeMatrixTest, Int4GroupsOf32) {
  constexpr int64_t kRows = 6, kCols = 96;
  std::vector<std::byte> bytes(kRows * kCols / 2), scales;
  const auto value = [](int64_t r, int64_t c) { return static_cast<int>((r * 5 + c * 3) % 16) - 8; };
  const auto scale = [](int64_t r, int64_t group) { return 0.5f + static_cast<float>(r * 3 + group); };
  for (int64_t i = 0; i < kRows * kCols; ++i)
    EncodeInt4(bytes.data() + i / kCols * kCols / 2, i % kCols, value(i / kCols, i % kCols));
  for (int64_t i = 0; i < kRows * 3; ++i) Append(scales, EncodeBf16(scale(i / 3, i % 3)));
  ExpectDecodes({.format = MatrixFormat::kInt4Group,
                 .rows = kRows,
                 .cols = kCols,
                 .data = bytes,
                 .scales = scales,
                 .scale_dtype = DType::kBF16,
                 .block_rows = 1,
                 .block_cols = 32},
                [&](int64_t r, int64_t c) { return static_cast<float>(value(r, c)) * scale(r, c / 32); });
}

class DecodeGgmlTest : public ::testing::TestWithParam<GgmlType> {};

TEST_P(DecodeGgmlTest, RectanglesCutBlocksAnywhere) {
  const GgmlTraits& traits = TraitsOf(GetParam());
  const int64_t rows = 4, cols = 3 * traits.block_values;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> source(rows * cols);
  for (float& x : source) x = normal(random);
  std::vector<std::byte> bytes(1), blocks = EncodeGgml(GetParam(), source);
  bytes.insert(bytes.end(), blocks.begin(), blocks.end());  // not aligned
  std::vector<float> values(rows * cols);
  DecodeGgmlBlocks(GetParam(), blocks.data(), rows * 3, values.data());
  const MatrixView m{.format = MatrixFormat::kGgml,
                     .rows = rows,
                     .cols = cols,
                     .data = absl::MakeConstSpan(bytes).subspan(1),
                     .scales = {},
                     .ggml = GetParam()};
  ExpectDecodes(m, [&](int64_t r, int64_t c) { return values[r * cols + c]; });
  const int64_t width = traits.block_values;
  for (const auto& [begin, end] :
       {std::pair{width, 2 * width}, {width / 2, 2 * width + 7}, {width + 1, width + 2}}) {
    std::vector<float> out(end - begin);
    DecodeMatrix(m, 2, 3, begin, end, absl::MakeSpan(out));
    for (int64_t c = begin; c < end; ++c) ASSERT_EQ(out[c - begin], values[2 * cols + c]) << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DecodeGgmlTest,
                         ::testing::Values(GgmlType::kQ4_0, GgmlType::kQ5_1, GgmlType::kQ8_0,
                                           GgmlType::kMxfp4, GgmlType::kQ3_K, GgmlType::kQ4_K,
                                           GgmlType::kQ6_K, GgmlType::kIq4Xs),
                         [](const auto& test) { return std::string(TraitsOf(test.param).name); });

TEST(DecodeMatrixDeathTest, RefusesARectangleOutsideTheMatrix) {
  const std::vector<std::byte> bytes(4 * 4 * 4);
  const MatrixView m{.format = MatrixFormat::kF32, .rows = 4, .cols = 4, .data = bytes, .scales = {}};
  std::vector<float> out(5);
  EXPECT_DEATH(DecodeMatrix(m, 0, 1, 0, 5, absl::MakeSpan(out)), "col_end <= matrix.cols");
  EXPECT_DEATH(DecodeMatrix(m, 0, 1, 0, 4, absl::MakeSpan(out)), "5 vs 4");
}

}  // namespace
}  // namespace numoe
