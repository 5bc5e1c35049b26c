// MatrixView decoding: the definition of what every stored weight format means.
#include <cstring>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "common/formats/fp16.h"
#include "common/formats/fp8.h"
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

float Element(const MatrixView& m, int64_t row, int64_t col) {
  const int64_t index = row * m.cols + col;
  switch (m.format) {
    case MatrixFormat::kF32:
      return Load<float>(m.data.data(), index);
    case MatrixFormat::kF16:
      return DecodeF16(Load<uint16_t>(m.data.data(), index));
    case MatrixFormat::kBF16:
      return DecodeBf16(Load<uint16_t>(m.data.data(), index));
    case MatrixFormat::kFp8Block:
      return DecodeFp8(Load<uint8_t>(m.data.data(), index));
    case MatrixFormat::kInt4Group: {
      const int64_t words = (m.cols + 7) / 8;  // rows are padded to whole words
      return static_cast<float>(DecodeInt4(m.data.data() + row * words * 4, col));
    }
  }
  return 0;
}

}  // namespace

void DecodeMatrix(const MatrixView& matrix, int64_t row_begin, int64_t row_end, int64_t col_begin, int64_t col_end,
                  absl::Span<float> out) {
  NUMOE_CHECK(0 <= row_begin && row_begin <= row_end && row_end <= matrix.rows);
  NUMOE_CHECK(0 <= col_begin && col_begin <= col_end && col_end <= matrix.cols);
  NUMOE_CHECK_EQ(static_cast<int64_t>(out.size()), (row_end - row_begin) * (col_end - col_begin));
  const int64_t scale_cols = (matrix.cols + matrix.block_cols - 1) / matrix.block_cols;
  float* target = out.data();
  for (int64_t r = row_begin; r < row_end; ++r) {
    float scale = 1.0f;
    int64_t scale_until = col_begin;  // columns before this one share `scale`
    for (int64_t c = col_begin; c < col_end; ++c) {
      if (!matrix.scales.empty() && c >= scale_until) {
        const int64_t block = c / matrix.block_cols;
        scale = LoadScale(matrix, r / matrix.block_rows * scale_cols + block);
        scale_until = (block + 1) * matrix.block_cols;
      }
      *target++ = Element(matrix, r, c) * scale;
    }
  }
}

}  // namespace numoe
