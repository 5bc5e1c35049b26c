#include "common/weights/matrix_checks.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "common/formats/fp16.h"

namespace numoe {
namespace {

// A float of any width is infinite or NaN if and only if all bits of its exponent are set. Returns the first
// such index, or -1, with one vector pass over blocks.
template <typename Word>
int64_t FindExponent(absl::Span<const std::byte> bytes, Word exponent) {
  constexpr size_t kBlock = 4096 / sizeof(Word);
  Word words[kBlock];
  const size_t count = bytes.size() / sizeof(Word);
  NUMOE_DCHECK_EQ(bytes.size() % sizeof(Word), 0u);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    std::memcpy(words, bytes.data() + begin * sizeof(Word), size * sizeof(Word));
    Word any = 0;
    for (size_t i = 0; i < size; ++i) any |= static_cast<Word>((words[i] & exponent) == exponent ? 1 : 0);
    if (any == 0) continue;
    for (size_t i = 0; i < size; ++i) {
      if ((words[i] & exponent) == exponent) return static_cast<int64_t>(begin + i);
    }
  }
  return -1;
}

template <typename Word>
Word At(absl::Span<const std::byte> bytes, int64_t index) {
  Word word;
  std::memcpy(&word, bytes.data() + static_cast<size_t>(index) * sizeof word, sizeof word);
  return word;
}

}  // namespace

absl::Status CheckScales(const MatrixView& m, int64_t first_row) {
  NUMOE_DCHECK(m.rows > 0 && m.cols > 0 && first_row >= 0);
  if (m.scales.empty()) return absl::OkStatus();
  int64_t at = -1;
  float value = 0;
  if (m.scale_dtype == DType::kF32) {
    at = FindExponent<uint32_t>(m.scales, 0x7f800000u);
    if (at >= 0) value = At<float>(m.scales, at);
  } else if (m.scale_dtype == DType::kBF16) {
    at = FindExponent<uint16_t>(m.scales, 0x7f80u);
    if (at >= 0) value = DecodeBf16(At<uint16_t>(m.scales, at));
  } else {
    NUMOE_DCHECK(m.scale_dtype == DType::kF16);
    at = FindExponent<uint16_t>(m.scales, 0x7c00u);
    if (at >= 0) value = DecodeF16(At<uint16_t>(m.scales, at));
  }
  if (at < 0) return absl::OkStatus();
  const int64_t scale_cols = (m.cols + m.block_cols - 1) / m.block_cols;
  return absl::InvalidArgumentError(fmt::format("scale [{}, {}] is {}, expected a finite number",
                                                first_row / m.block_rows + at / scale_cols, at % scale_cols,
                                                value));
}

absl::Status CheckCodes(const MatrixView& m, int64_t first_row) {
  NUMOE_DCHECK(m.cols > 0 && first_row >= 0);
  if (m.format != MatrixFormat::kFp8Block) return absl::OkStatus();
  const int64_t at = FindExponent<uint8_t>(m.data, 0x7fu);  // E4M3 has one NaN and no infinity
  if (at < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("element [{}, {}] is NaN, expected a number", first_row + at / m.cols, at % m.cols));
}

}  // namespace numoe
