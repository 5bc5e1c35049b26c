// Decodes MatrixView. This code defines what every stored weight format means.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "common/formats/fp16.h"
#include "common/formats/fp8.h"
#include "common/formats/ggml_blocks.h"
#include "common/formats/int4.h"
#include "common/weights/checkpoint.h"

namespace numoe {
namespace {

template <typename T>
T Load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof value);
  return value;
}

float LoadScale(const MatrixView& m, int64_t index) {
  NUMOE_DCHECK(0 <= index && (static_cast<size_t>(index) + 1) * DTypeBytes(m.scale_dtype) <= m.scales.size());
  switch (m.scale_dtype) {
    case DType::kF32:
      return Load<float>(m.scales.data(), index);
    case DType::kBF16:
      return DecodeBf16(Load<uint16_t>(m.scales.data(), index));
    case DType::kF16:
      return DecodeF16(Load<uint16_t>(m.scales.data(), index));
    default:
      NUMOE_CHECK(false) << "scale dtype " << static_cast<int>(m.scale_dtype) << " passed FindMatrix";
  }
  return 0;
}

// Decodes elements [col_begin, col_end) of row `row`: whole blocks in place, and those at the ends through a
// copy.
void DecodeGgmlRow(const MatrixView& m, int64_t row, int64_t col_begin, int64_t col_end, float* out) {
  const GgmlTraits& traits = TraitsOf(m.ggml);
  const int64_t width = traits.block_values;
  NUMOE_DCHECK_EQ(m.cols % width, 0);
  const std::byte* blocks = m.data.data() + row * (m.cols / width) * traits.block_bytes;
  float part[256];
  NUMOE_CHECK_LE(width, static_cast<int64_t>(std::size(part)));
  for (int64_t col = col_begin; col < col_end;) {
    const int64_t block = col / width, inside = col % width;
    if (inside == 0 && col_end - col >= width) {
      const int64_t count = (col_end - col) / width;
      DecodeGgmlBlocks(m.ggml, blocks + block * traits.block_bytes, count, out + (col - col_begin));
      col += count * width;
      continue;
    }
    const int64_t end = std::min(col_end, (block + 1) * width);
    DecodeGgmlBlocks(m.ggml, blocks + block * traits.block_bytes, 1, part);
    std::copy_n(part + inside, end - col, out + (col - col_begin));
    col = end;
  }
}

// Decodes elements [col_begin, col_end) of row `row`, without their scales. There is one loop for each
// format, because this runs over whole models.
void DecodeCodes(const MatrixView& m, int64_t row, int64_t col_begin, int64_t col_end, float* out) {
  const auto fill = [&](auto decode) {
    for (int64_t c = col_begin; c < col_end; ++c) out[c - col_begin] = decode(c);
  };
  const std::byte* data = m.data.data();
  const int64_t first = row * m.cols;
  switch (m.format) {
    case MatrixFormat::kF32:
      return fill([=](int64_t c) { return Load<float>(data, first + c); });
    case MatrixFormat::kF16:
      return fill([=](int64_t c) { return DecodeF16(Load<uint16_t>(data, first + c)); });
    case MatrixFormat::kBF16:
      return fill([=](int64_t c) { return DecodeBf16(Load<uint16_t>(data, first + c)); });
    case MatrixFormat::kFp8Block:
      return fill([=](int64_t c) { return DecodeFp8(Load<uint8_t>(data, first + c)); });
    case MatrixFormat::kInt4Group: {
      const std::byte* words = data + row * ((m.cols + 7) / 8) * 4;  // rows are padded to whole words
      return fill([=](int64_t c) { return static_cast<float>(DecodeInt4(words, c)); });
    }
    case MatrixFormat::kGgml:
      return DecodeGgmlRow(m, row, col_begin, col_end, out);
  }
}

void ApplyScales(const MatrixView& m, int64_t row, int64_t col_begin, int64_t col_end, float* out) {
  NUMOE_DCHECK(m.block_rows > 0 && m.block_cols > 0);
  const int64_t scale_cols = (m.cols + m.block_cols - 1) / m.block_cols;
  for (int64_t begin = col_begin; begin < col_end;) {
    const int64_t block = begin / m.block_cols;
    const int64_t end = std::min(col_end, (block + 1) * m.block_cols);
    const float scale = LoadScale(m, row / m.block_rows * scale_cols + block);
    for (int64_t c = begin; c < end; ++c) out[c - col_begin] *= scale;
    begin = end;
  }
}

}  // namespace

void DecodeMatrix(const MatrixView& matrix, int64_t row_begin, int64_t row_end, int64_t col_begin,
                  int64_t col_end, absl::Span<float> out) {
  NUMOE_CHECK(0 <= row_begin && row_begin <= row_end && row_end <= matrix.rows);
  NUMOE_CHECK(0 <= col_begin && col_begin <= col_end && col_end <= matrix.cols);
  NUMOE_CHECK_EQ(static_cast<int64_t>(out.size()), (row_end - row_begin) * (col_end - col_begin));
  float* target = out.data();
  for (int64_t row = row_begin; row < row_end; ++row, target += col_end - col_begin) {
    DecodeCodes(matrix, row, col_begin, col_end, target);
    if (!matrix.scales.empty()) ApplyScales(matrix, row, col_begin, col_end, target);
  }
  NUMOE_CHECK(target == out.data() + out.size());
}

}  // namespace numoe
