#include "common/kernels/q4k_packing.h"

#include <emmintrin.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/kernels/layout.h"
#include "common/kernels/panel_packing.h"

namespace numoe {
namespace {

using namespace layout;  // NOLINT: the file is about nothing else

// A block of 256 (ggml-common.h): fp16 d, fp16 dmin, 12 bytes of scales and minima, 128 of codes.
constexpr int kBlock = 256;
constexpr size_t kBlockBytes = 144, kFactor = 2, kScales = 4, kCodes = 16;
constexpr size_t kStepCodes = 32;  // bytes of one row
constexpr int kSubBlocks = 8;
static_assert(kBlock == kQ4KBlockSteps * kStepCols && kSubBlocks == 2 * kQ4KBlockSteps);

// The eight 6-bit scales and minima of a block.
void UnpackScales(const std::byte* packed, uint8_t* scales, uint8_t* minima) {
  uint8_t s[12];
  std::memcpy(s, packed, sizeof s);
  for (int j = 0; j < 4; ++j) {
    scales[j] = s[j] & 63;
    minima[j] = s[j + 4] & 63;
    scales[j + 4] = static_cast<uint8_t>((s[j + 8] & 15) | (s[j] >> 6 << 4));
    minima[j + 4] = static_cast<uint8_t>((s[j + 8] >> 4) | (s[j + 4] >> 6 << 4));
  }
}

bool IsFinite(const std::byte* half) {
  uint16_t bits;
  std::memcpy(&bits, half, sizeof bits);
  return (bits & 0x7c00u) != 0x7c00u;
}

}  // namespace

absl::Status PackQ4KPanel(const MatrixView& source, int64_t row, int rows, int64_t col, int cols,
                          std::byte* panel) {
  NUMOE_DCHECK(source.format == MatrixFormat::kGgml && source.ggml == GgmlType::kQ4_K);
  NUMOE_DCHECK(rows <= kPanelRows && col % kBlock == 0 && cols % kGroup == 0);
  const int steps = Steps(cols);
  const size_t step_bytes = StepBytes(WeightFormat::kQ4K);
  const size_t row_bytes = static_cast<size_t>(source.cols / kBlock) * kBlockBytes;
  const std::byte* first = source.data.data() + static_cast<size_t>(row) * row_bytes +
                           static_cast<size_t>(col / kBlock) * kBlockBytes;
  alignas(kLine) std::byte codes[kQ4KBlockSteps][kPanelRows][kStepCodes] = {};
  for (int step = 0; step < steps; step += kQ4KBlockSteps) {
    const int in_block = std::min(kQ4KBlockSteps, steps - step);
    std::byte* out = panel + static_cast<size_t>(step) * step_bytes;
    std::byte* tail = panel + static_cast<size_t>(steps) * step_bytes + TailOffset(WeightFormat::kQ4K, step);
    for (int s = 0; s < in_block; ++s)
      std::memset(out + static_cast<size_t>(s) * step_bytes + kQ4KScales, 0, step_bytes - kQ4KScales);
    std::memset(tail, 0, kQ4KBlockTail);
    for (int r = 0; r < rows; ++r) {
      const std::byte* block = first + static_cast<size_t>(r) * row_bytes +
                               static_cast<size_t>(step / kQ4KBlockSteps) * kBlockBytes;
      if (!IsFinite(block) || !IsFinite(block + kFactor)) {
        return absl::InvalidArgumentError(
            fmt::format("block [{}, {}] has a factor that is not finite; check the file", row + r,
                        col + int64_t{step} * kStepCols));
      }
      std::memcpy(tail + r * 2, block, 2);
      std::memcpy(tail + (kPanelRows + r) * 2, block + kFactor, 2);
      uint8_t scales[kSubBlocks], minima[kSubBlocks];
      UnpackScales(block + kScales, scales, minima);
      for (int s = 0; s < in_block; ++s) {
        std::memcpy(codes[s][r], block + kCodes + static_cast<size_t>(s) * kStepCodes, kStepCodes);
        std::byte* at = out + static_cast<size_t>(s) * step_bytes + r;
        for (int g = 0; g < 2; ++g) {
          if ((step + s) * kStepCols + g * kGroup >= cols) continue;  // a scale of zero ends the row
          at[kQ4KScales + static_cast<size_t>(g * kPanelRows)] = static_cast<std::byte>(scales[2 * s + g]);
          at[kQ4KMinima + static_cast<size_t>(g * kPanelRows)] = static_cast<std::byte>(minima[2 * s + g]);
        }
      }
    }
    for (int s = 0; s < in_block; ++s) {
      for (size_t half = 0; half < 2; ++half) {
        TransposeHalf(codes[s][half * kHalfRows], kStepCodes, static_cast<int>(kStepCodes / 4),
                      out + static_cast<size_t>(s) * step_bytes + half * kInt4Codes / 2);
      }
    }
  }
  _mm_sfence();  // streamed stores are seen by who sees what follows
  return absl::OkStatus();
}

}  // namespace numoe
