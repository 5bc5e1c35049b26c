// Packs a stored matrix, and unpacks one weight.
#include <emmintrin.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/bf16.h"
#include "common/formats/fp16.h"
#include "common/formats/fp8.h"
#include "common/formats/ggml_blocks.h"
#include "common/formats/int4.h"
#include "common/kernels/ggml_packing.h"
#include "common/kernels/kernels.h"
#include "common/kernels/layout.h"
#include "common/kernels/packing_kernels.h"
#include "common/kernels/panel_packing.h"

namespace numoe {
namespace {

using namespace layout;  // NOLINT: this file uses layout's names throughout

struct Source {
  const MatrixView& matrix;
  int64_t row_begin;
  int64_t col_begin;
  int rows;
  int cols;
};

template <typename T>
void Store(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof value);
}
template <typename T>
T Load(const std::byte* in) {
  T value;
  std::memcpy(&value, in, sizeof value);
  return value;
}

// The columns of a panel that are quantised before they are transposed, so that they stay in the first-level
// cache.
constexpr int kBlockCols = 512;
constexpr int kBlockGroups = kBlockCols / kGroup;
static_assert(kBlockCols % kStepCols == 0 && kStepCols == 2 * kGroup);

struct CodesBlock {
  alignas(kLine) int8_t codes[kPanelRows][kBlockCols];
  float scales[kPanelRows][kBlockGroups];
  float weights[kBlockCols];  // one row
};

void ReadInt4Group(const MatrixView& m, int64_t row, int64_t col, int8_t* codes, float& scale) {
  const int64_t words = (m.cols + 7) / 8;
  for (int i = 0; i < kGroup; ++i)
    codes[i] = static_cast<int8_t>(DecodeInt4(m.data.data() + row * words * 4, col + i));
  const int64_t index = row * ((m.cols + kGroup - 1) / kGroup) + col / kGroup;
  scale = DecodeBf16(Load<uint16_t>(m.scales.data() + index * 2));
}

// Reads GGUF blocks whose weights are codes of 8 bits times a scale for each 32 of them.
bool IsInt8Already(const MatrixView& m) { return m.format == MatrixFormat::kGgml && GgmlIsInt8(m.ggml); }

void ReadGgmlGroup(const MatrixView& m, int64_t row, int64_t col, int8_t* codes, float& scale) {
  static_assert(kGgmlGroup == kGroup);
  const GgmlTraits& traits = TraitsOf(m.ggml);
  const int64_t block = (row * m.cols + col) / traits.block_values;
  const auto in_block = static_cast<int>(col % traits.block_values / kGroup);
  scale = DecodeGgmlInt8(m.ggml, m.data.data() + block * traits.block_bytes, in_block, codes);
}

// Returns an error for a group that contains a NaN or an infinity, because no scale can be chosen for it;
// bf16 and fp8 keep such a weight. `weights` belong to a group that begins at (row, col).
absl::Status CheckFinite(WeightFormat format, int64_t row, int64_t col, const float* weights) {
  int at = 0;
  while (at < kGroup && std::isfinite(weights[at])) ++at;
  if (at == kGroup) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("weight [{}, {}] is {}, format {} needs finite weights; check the file, or use format bf16",
                  row, col + at, weights[at], WeightFormatName(format)));
}

// Packs columns [col, col + cols) of a row of the matrix to row `in_panel` of the block.
absl::Status ReadGroups(WeightFormat format, const MatrixView& m, int64_t row, int64_t col, int cols,
                        int in_panel, CodesBlock& out) {
  int8_t* codes = out.codes[in_panel];
  NUMOE_DCHECK(0 <= in_panel && in_panel < kPanelRows);
  NUMOE_DCHECK(0 < cols && cols <= kBlockCols && cols % kGroup == 0) << cols;
  float* scales = out.scales[in_panel];
  const int groups = cols / kGroup;
  if (format == WeightFormat::kRawInt4) {
    for (int g = 0; g < groups; ++g) ReadInt4Group(m, row, col + g * kGroup, codes + g * kGroup, scales[g]);
    return absl::OkStatus();
  }
  if (format == WeightFormat::kInt8 && IsInt8Already(m)) {
    for (int g = 0; g < groups; ++g) {
      const int64_t at = col + g * kGroup;
      ReadGgmlGroup(m, row, at, codes + g * kGroup, scales[g]);
      if (std::isfinite(scales[g] * 128.0f)) continue;
      DecodeMatrix(m, row, row + 1, at, at + kGroup, absl::MakeSpan(out.weights, kGroup));
      RETURN_IF_ERROR(CheckFinite(format, row, at, out.weights));
    }
    return absl::OkStatus();
  }
  DecodeMatrix(m, row, row + 1, col, col + cols, absl::MakeSpan(out.weights, static_cast<size_t>(cols)));
  const PackingKernels& kernels = BestPackingKernels();
  const auto quantise = format == WeightFormat::kInt8 ? kernels.quantise_int8 : kernels.quantise_int4;
  const int bad = quantise(out.weights, groups, codes, scales);
  if (bad < 0) return absl::OkStatus();
  return CheckFinite(format, row, col + bad * kGroup, out.weights + bad * kGroup);
}

void PutInt8Step(const CodesBlock& block, int first, std::byte* step) {
  NUMOE_DCHECK(first % kStepCols == 0 && first + kStepCols <= kBlockCols) << first;
  for (int half = 0; half < 2; ++half) {
    BestPackingKernels().transpose_half(
        reinterpret_cast<const std::byte*>(block.codes[half * kHalfRows] + first), kBlockCols, kStepCols / 4,
        step + static_cast<size_t>(half) * kInt8Codes / 2);
  }
  float scales[2][kPanelRows];
  for (int row = 0; row < kPanelRows; ++row) {
    for (int g = 0; g < 2; ++g) scales[g][row] = block.scales[row][first / kGroup + g];
  }
  std::memcpy(step + kInt8Codes, scales, sizeof scales);
}

void PutInt4Step(const CodesBlock& block, int first, std::byte* step) {
  NUMOE_DCHECK(first % kStepCols == 0 && first + kStepCols <= kBlockCols) << first;
  alignas(kLine) uint8_t pairs[kPanelRows][kGroup];
  uint16_t scales[2][kPanelRows];
  for (int row = 0; row < kPanelRows; ++row) {
    const int8_t* codes = block.codes[row] + first;
    for (int k = 0; k < kGroup; ++k)
      pairs[row][k] = static_cast<uint8_t>((codes[k] + 8) | (codes[k + kGroup] + 8) << 4);
    for (int g = 0; g < 2; ++g) scales[g][row] = EncodeBf16(block.scales[row][first / kGroup + g]);
  }
  for (int half = 0; half < 2; ++half) {
    BestPackingKernels().transpose_half(reinterpret_cast<const std::byte*>(pairs[half * kHalfRows]), kGroup,
                                        kGroup / 4, step + static_cast<size_t>(half) * kInt4Codes / 2);
  }
  std::memcpy(step + kInt4Codes, scales, sizeof scales);
}

// Packs rows [first_row, first_row + rows) of the slice.
absl::Status PackGroupsPanel(WeightFormat format, const Source& s, int first_row, int rows,
                             std::byte* panel) {
  const bool int8 = format == WeightFormat::kInt8;
  NUMOE_DCHECK(0 < rows && rows <= kPanelRows && first_row % kPanelRows == 0);
  CodesBlock block;
  for (int col = 0; col < s.cols; col += kBlockCols) {
    const int cols = std::min(kBlockCols, s.cols - col);
    if (rows < kPanelRows || cols % kStepCols != 0) {  // rows and columns that do not exist are zero bytes
      std::memset(block.codes, int8 ? 0 : -8, sizeof block.codes);
      std::memset(block.scales, 0, sizeof block.scales);
    }
    for (int row = 0; row < rows; ++row) {
      RETURN_IF_ERROR(
          ReadGroups(format, s.matrix, s.row_begin + first_row + row, s.col_begin + col, cols, row, block));
    }
    for (int first = 0; first < cols; first += kStepCols, panel += StepBytes(format))
      int8 ? PutInt8Step(block, first, panel) : PutInt4Step(block, first, panel);
  }
  _mm_sfence();  // makes the streamed stores visible to threads that see later stores
  return absl::OkStatus();
}

void PackBf16Row(const Source& s, int row, int row_in_panel, std::byte* panel) {
  std::vector<float> weights(s.cols);
  DecodeMatrix(s.matrix, s.row_begin + row, s.row_begin + row + 1, s.col_begin, s.col_begin + s.cols,
               absl::MakeSpan(weights));
  for (int col = 0; col < s.cols; ++col) {
    std::byte* step = panel + col / kStepCols * StepBytes(WeightFormat::kBf16);
    Store(step + PairByte(row_in_panel, col % kStepCols), EncodeBf16(weights[col]));
  }
}

void PackFp8Row(const Source& s, int row, int row_in_panel, std::byte* panel) {
  const std::byte* source = s.matrix.data.data() + (s.row_begin + row) * s.matrix.cols + s.col_begin;
  for (int col = 0; col < s.cols; ++col) {
    std::byte* step = panel + col / kStepCols * StepBytes(WeightFormat::kFp8);
    step[QuadByte(row_in_panel, col % kStepCols)] = source[col];
  }
}

// Writes one scale for each step: that of the block which contains the panel's rows and the step's columns.
void PackFp8Scales(const Source& s, int first_row, std::byte* panel) {
  const int64_t scale_cols = (s.matrix.cols + s.matrix.block_cols - 1) / s.matrix.block_cols;
  std::byte* tail = panel + Steps(s.cols) * StepBytes(WeightFormat::kFp8);
  std::memset(tail, 0, PanelBytes(WeightFormat::kFp8, s.cols) - static_cast<size_t>(tail - panel));
  for (int step = 0; step < Steps(s.cols); ++step) {
    const int64_t index = (s.row_begin + first_row) / s.matrix.block_rows * scale_cols +
                          (s.col_begin + step * kStepCols) / s.matrix.block_cols;
    const float scale = s.matrix.scale_dtype == DType::kF32
                            ? Load<float>(s.matrix.scales.data() + index * 4)
                            : DecodeBf16(Load<uint16_t>(s.matrix.scales.data() + index * 2));
    Store(tail + static_cast<size_t>(step) * 4, scale);
  }
}

absl::Status CheckFp8(const Source& s) {
  const MatrixView& m = s.matrix;
  if (m.format != MatrixFormat::kFp8Block || m.scale_dtype == DType::kF16) {
    return absl::InvalidArgumentError(
        "format fp8 needs block-FP8 weights with F32 or BF16 scales; use bf16, int8 or int4");
  }
  if (m.block_rows % kPanelRows != 0 || m.block_cols % kStepCols != 0) {
    return absl::InvalidArgumentError(
        fmt::format("format fp8 needs blocks of a multiple of {} x {}, found {} x {}", kPanelRows, kStepCols,
                    m.block_rows, m.block_cols));
  }
  if (s.row_begin % m.block_rows % kPanelRows != 0 || s.col_begin % m.block_cols % kStepCols != 0) {
    return absl::InvalidArgumentError(
        fmt::format("slice begins at row {} column {}: it cuts the {} x {} scale blocks of fp8 (expected "
                    "multiples of {} and {})",
                    s.row_begin, s.col_begin, m.block_rows, m.block_cols, kPanelRows, kStepCols));
  }
  return absl::OkStatus();
}

absl::Status CheckGgml(WeightFormat format, const GgmlTraits& traits, const Source& s) {
  if (s.matrix.format != MatrixFormat::kGgml || s.matrix.ggml != traits.type) {
    return absl::InvalidArgumentError(fmt::format("format {} needs GGUF's {} blocks; use int8 or bf16",
                                                  WeightFormatName(format), traits.name));
  }
  if (s.col_begin % traits.block_values == 0 && s.cols % kGroup == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("columns {} to {} cut the blocks of {} weights that share a scale", s.col_begin,
                  s.col_begin + s.cols, traits.block_values));
}

absl::Status CheckSource(WeightFormat format, const Source& s) {
  const bool inside = s.row_begin >= 0 && s.col_begin >= 0 && s.rows > 0 && s.cols > 0 &&
                      s.row_begin + s.rows <= s.matrix.rows && s.col_begin + s.cols <= s.matrix.cols;
  NUMOE_CHECK(inside) << "slice outside the matrix";
  if (format == WeightFormat::kFp8) return CheckFp8(s);
  if (const auto type = GgmlTypeOf(format)) return CheckGgml(format, TraitsOf(*type), s);
  if (format == WeightFormat::kBf16) return absl::OkStatus();
  if (s.cols % kGroup != 0 || s.col_begin % kGroup != 0) {
    return absl::InvalidArgumentError(
        fmt::format("columns {} to {} cut the groups of {} weights that share a scale", s.col_begin,
                    s.col_begin + s.cols, kGroup));
  }
  if (format != WeightFormat::kRawInt4) return absl::OkStatus();
  if (s.matrix.format != MatrixFormat::kInt4Group || s.matrix.scale_dtype != DType::kBF16 ||
      s.matrix.block_cols != kGroup) {
    return absl::InvalidArgumentError(
        "format raw_int4 needs pack-quantized INT4 weights in groups of 32 with BF16 "
        "scales; use int4, int8 or bf16");
  }
  return absl::OkStatus();
}

// Returns a scale of a GGUF format, or a minimum; bytes are multiplied by `factor`.
float UnpackScale(WeightFormat format, const std::byte* scale, const std::byte* factor) {
  switch (format) {
    case WeightFormat::kQ4K:
      return DecodeF16(Load<uint16_t>(factor)) * static_cast<float>(Load<uint8_t>(scale));
    case WeightFormat::kIq4Xs:
    case WeightFormat::kQ6K:
      return DecodeF16(Load<uint16_t>(factor)) * static_cast<float>(Load<int8_t>(scale));
    case WeightFormat::kMxfp4:
      return std::bit_cast<float>(std::to_integer<uint32_t>(*scale) << 23);
    default:
      return DecodeF16(Load<uint16_t>(scale));
  }
}

// Returns weight `k` of a step's row `r` in a GGUF format; `tail`: the step's part of the panel's tail.
float UnpackGgml(WeightFormat format, const std::byte* step, const std::byte* tail, int r, int k) {
  NUMOE_DCHECK(0 <= r && r < kPanelRows && 0 <= k && k < kStepCols);
  const unsigned byte = std::to_integer<unsigned>(step[NibbleByte(r, k)]);
  const unsigned nibble = k < kGroup ? byte & 15u : byte >> 4;
  const auto scale = [&](int g, const std::byte* factors) {
    return UnpackScale(format, step + ScaleOffset(format, g) + static_cast<size_t>(r) * ScaleBytes(format),
                       factors + r * 2);
  };
  if (format == WeightFormat::kQ6K) {
    const unsigned upper = std::to_integer<unsigned>(step[UpperByte(r, k)]) >> (k / kHalfGroup * 2) & 3u;
    const int value = static_cast<int>(upper << 4 | nibble) - kQ6KOffset;
    return scale(k / kHalfGroup, tail) * static_cast<float>(value);
  }
  const float product = scale(k / kGroup, tail) * static_cast<float>(CodeValues(format)[nibble]);
  if (!HasMinima(format)) return product;
  const float minimum = scale(k / kGroup + 2, tail + kPanelRows * 2);
  return format == WeightFormat::kQ4_1 ? product + minimum : product - minimum;
}

}  // namespace

size_t PackedBytes(WeightFormat format, int rows, int cols) {
  return static_cast<size_t>(Panels(rows)) * PanelBytes(format, cols);
}

absl::Status PackMatrix(WeightFormat format, const MatrixView& source, int64_t row_begin, int rows,
                        int64_t col_begin, int cols, absl::Span<std::byte> out) {
  const Source s{source, row_begin, col_begin, rows, cols};
  RETURN_IF_ERROR(CheckSource(format, s));
  NUMOE_CHECK_EQ(out.size(), PackedBytes(format, rows, cols));
  NUMOE_CHECK_EQ(reinterpret_cast<uintptr_t>(out.data()) % kLine, 0u);
  if (GgmlTypeOf(format)) {
    for (int row = 0; row < rows; row += kPanelRows) {
      RETURN_IF_ERROR(PackGgmlPanel(format, source, row_begin + row, std::min(kPanelRows, rows - row),
                                    col_begin, cols,
                                    out.data() + row / kPanelRows * PanelBytes(format, cols)));
    }
    return absl::OkStatus();
  }
  if (KeepsStoredBytes(format, source, rows, cols)) {
    for (int row = 0; row < rows; row += kPanelRows) {
      std::byte* panel = out.data() + row / kPanelRows * PanelBytes(format, cols);
      PackPanel(format, source, row_begin + row, col_begin, cols, panel);
      if (format == WeightFormat::kFp8) PackFp8Scales(s, row, panel);
    }
    return absl::OkStatus();
  }
  if (format != WeightFormat::kBf16 && format != WeightFormat::kFp8) {
    for (int row = 0; row < rows; row += kPanelRows) {
      RETURN_IF_ERROR(PackGroupsPanel(format, s, row, std::min(kPanelRows, rows - row),
                                      out.data() + row / kPanelRows * PanelBytes(format, cols)));
    }
    return absl::OkStatus();
  }
  std::memset(out.data(), 0, out.size());
  for (int row = 0; row < rows; ++row) {
    std::byte* panel = out.data() + row / kPanelRows * PanelBytes(format, cols);
    const int in_panel = row % kPanelRows;
    if (format == WeightFormat::kBf16) {
      PackBf16Row(s, row, in_panel, panel);
    } else {
      PackFp8Row(s, row, in_panel, panel);
      if (in_panel == 0) PackFp8Scales(s, row, panel);
    }
  }
  return absl::OkStatus();
}

float UnpackWeight(const PackedMatrix& matrix, int row, int col) {
  NUMOE_CHECK(0 <= row && row < matrix.rows && 0 <= col && col < matrix.cols);
  const std::byte* panel = matrix.data + row / kPanelRows * PanelBytes(matrix.format, matrix.cols);
  const std::byte* step = panel + col / kStepCols * StepBytes(matrix.format);
  const int r = row % kPanelRows;
  const int k = col % kStepCols;
  const size_t scale_index = static_cast<size_t>(k / kGroup) * kPanelRows + r;
  switch (matrix.format) {
    case WeightFormat::kBf16:
      return DecodeBf16(Load<uint16_t>(step + PairByte(r, k)));
    case WeightFormat::kFp8: {
      const std::byte* tail = panel + Steps(matrix.cols) * StepBytes(matrix.format);
      return DecodeFp8(std::to_integer<uint8_t>(step[QuadByte(r, k)])) *
             Load<float>(tail + static_cast<size_t>(col / kStepCols) * 4);
    }
    case WeightFormat::kInt8:
      return static_cast<float>(std::to_integer<int8_t>(step[QuadByte(r, k)])) *
             Load<float>(step + kInt8Codes + scale_index * 4);
    case WeightFormat::kRawInt4:
    case WeightFormat::kInt4: {
      const unsigned byte = std::to_integer<unsigned>(step[NibbleByte(r, k)]);
      const int code = static_cast<int>(k < kGroup ? byte & 15u : byte >> 4) - 8;
      return static_cast<float>(code) * DecodeBf16(Load<uint16_t>(step + kInt4Codes + scale_index * 2));
    }
    default:
      return UnpackGgml(
          matrix.format, step,
          panel + Steps(matrix.cols) * StepBytes(matrix.format) + TailOffset(matrix.format, col / kStepCols),
          r, k);
  }
}

}  // namespace numoe
