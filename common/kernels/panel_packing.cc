#include "common/kernels/panel_packing.h"

#include <emmintrin.h>

#include <cstring>

#include "common/base/check.h"
#include "common/kernels/cpu_features.h"
#include "common/kernels/layout.h"
#include "common/kernels/packing_kernels.h"

namespace numoe {

extern const PackingKernels kKernelsPackingScalar, kKernelsPackingAvx2, kKernelsPackingAvx512;

namespace {

using namespace layout;  // NOLINT: this file uses layout's names throughout

// Writes without the caches, because a packed weight is not read soon.
void Stream(std::byte* out, __m128i value) { _mm_stream_si128(reinterpret_cast<__m128i*>(out), value); }

// Transposes two scales of 16 bits of each row to a line of first ones and a line of second ones.
void PackInt4Scales(const std::byte* scales, size_t scale_bytes, std::byte* out) {
  alignas(16) uint32_t pairs[kPanelRows];
  static_assert(kPanelRows % 8 == 0);
  for (size_t row = 0; row < kPanelRows; ++row)
    std::memcpy(&pairs[row], scales + row * scale_bytes, sizeof pairs[row]);
  for (size_t row = 0; row < kPanelRows; row += 8) {
    const __m128i a = _mm_load_si128(reinterpret_cast<const __m128i*>(pairs + row));
    const __m128i b = _mm_load_si128(reinterpret_cast<const __m128i*>(pairs + row + 4));
    // The values are sign-extended, so that the packing instruction saturates none of them.
    const auto first = [](__m128i v) { return _mm_srai_epi32(_mm_slli_epi32(v, 16), 16); };
    Stream(out + row * 2, _mm_packs_epi32(first(a), first(b)));
    Stream(out + kLine + row * 2, _mm_packs_epi32(_mm_srai_epi32(a, 16), _mm_srai_epi32(b, 16)));
  }
}

}  // namespace

const PackingKernels& BestPackingKernels() {
  const CpuFeatures& cpu = DetectCpuFeatures();
  return cpu.avx512 ? kKernelsPackingAvx512 : cpu.avx2 ? kKernelsPackingAvx2 : kKernelsPackingScalar;
}

bool KeepsStoredBytes(WeightFormat format, const MatrixView& source, int rows, int cols) {
  if (rows % kPanelRows != 0 || cols % kStepCols != 0) return false;
  switch (format) {
    case WeightFormat::kRawInt4:
      return source.format == MatrixFormat::kInt4Group && source.cols % kGroup == 0;
    case WeightFormat::kFp8:
      return source.format == MatrixFormat::kFp8Block;
    case WeightFormat::kBf16:
      return source.format == MatrixFormat::kBF16;
    default:
      return false;
  }
}

void PackPanel(WeightFormat format, const MatrixView& source, int64_t row, int64_t col, int cols,
               std::byte* panel) {
  const auto at_row = static_cast<size_t>(row), at_col = static_cast<size_t>(col);
  NUMOE_DCHECK(KeepsStoredBytes(format, source, kPanelRows, cols));
  NUMOE_DCHECK(row + kPanelRows <= source.rows && col + cols <= source.cols);
  const size_t row_bytes = source.data.size() / static_cast<size_t>(source.rows);
  const std::byte* rows = source.data.data() + at_row * row_bytes;
  const size_t step_bytes = StepBytes(format);
  const PackingKernels& kernels = BestPackingKernels();
  for (int step = 0; step < Steps(cols); ++step, panel += step_bytes) {
    const size_t input = at_col + static_cast<size_t>(step) * kStepCols;
    if (format == WeightFormat::kRawInt4) {
      const size_t scale_bytes = static_cast<size_t>(source.cols) / kGroup * 2;
      kernels.pack_nibbles(rows + input / 2, row_bytes, panel);
      PackInt4Scales(source.scales.data() + at_row * scale_bytes + input / kGroup * 2, scale_bytes,
                     panel + kInt4Codes);
      continue;
    }
    const size_t value_bytes = format == WeightFormat::kBf16 ? 2 : 1;
    const int words = kStepCols * static_cast<int>(value_bytes) / 4;
    for (size_t half = 0; half < 2; ++half)
      kernels.transpose_half(rows + half * kHalfRows * row_bytes + input * value_bytes, row_bytes, words,
                             panel + half * static_cast<size_t>(words) * kLine);
  }
  _mm_sfence();  // makes the streamed stores visible to threads that see later stores
}

}  // namespace numoe
