#include "common/kernels/panel_packing.h"

#include <emmintrin.h>

#include <cstring>

#include "common/kernels/layout.h"

namespace numoe {
namespace {

using namespace layout;  // NOLINT: the file is about nothing else

__m128i Load(const std::byte* data) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data)); }
// Past the caches: nobody reads a packed weight soon.
void Stream(std::byte* out, __m128i value) { _mm_stream_si128(reinterpret_cast<__m128i*>(out), value); }

// Words [0, 4) of 16 rows to four lines of 16 words. rows[r] points at the row's first word.
void TransposeWords(const std::byte* const* rows, std::byte* out) {
  __m128i columns[4][4];  // [word][four rows]
  for (int part = 0; part < 4; ++part) {
    const __m128i r0 = Load(rows[4 * part]), r1 = Load(rows[4 * part + 1]);
    const __m128i r2 = Load(rows[4 * part + 2]), r3 = Load(rows[4 * part + 3]);
    const __m128i low01 = _mm_unpacklo_epi32(r0, r1), high01 = _mm_unpackhi_epi32(r0, r1);
    const __m128i low23 = _mm_unpacklo_epi32(r2, r3), high23 = _mm_unpackhi_epi32(r2, r3);
    columns[0][part] = _mm_unpacklo_epi64(low01, low23);
    columns[1][part] = _mm_unpackhi_epi64(low01, low23);
    columns[2][part] = _mm_unpacklo_epi64(high01, high23);
    columns[3][part] = _mm_unpackhi_epi64(high01, high23);
  }
  for (int word = 0; word < 4; ++word) {
    for (int part = 0; part < 4; ++part)
      Stream(out + static_cast<size_t>(word) * kLine + static_cast<size_t>(part) * 16, columns[word][part]);
  }
}

// A step of one row, 64 nibbles in the order of the inputs, to 32 bytes: input k low, input k + 32 high.
void PairNibbles(const std::byte* row, std::byte* out) {
  const __m128i low_half = _mm_set1_epi8(0x0f), high_half = _mm_set1_epi8(static_cast<char>(0xf0));
  const __m128i a = Load(row), b = Load(row + 16);  // inputs 0-31, 32-63
  const __m128i even =
      _mm_or_si128(_mm_and_si128(a, low_half), _mm_and_si128(_mm_slli_epi16(b, 4), high_half));
  const __m128i odd =
      _mm_or_si128(_mm_and_si128(_mm_srli_epi16(a, 4), low_half), _mm_and_si128(b, high_half));
  _mm_store_si128(reinterpret_cast<__m128i*>(out), _mm_unpacklo_epi8(even, odd));
  _mm_store_si128(reinterpret_cast<__m128i*>(out + 16), _mm_unpackhi_epi8(even, odd));
}

// Two scales of 16 bits of each row to one line of first ones and one of second ones.
void PackInt4Scales(const std::byte* scales, size_t scale_bytes, std::byte* out) {
  alignas(16) uint32_t pairs[kPanelRows];
  for (size_t row = 0; row < kPanelRows; ++row)
    std::memcpy(&pairs[row], scales + row * scale_bytes, sizeof pairs[row]);
  for (size_t row = 0; row < kPanelRows; row += 8) {
    const __m128i a = _mm_load_si128(reinterpret_cast<const __m128i*>(pairs + row));
    const __m128i b = _mm_load_si128(reinterpret_cast<const __m128i*>(pairs + row + 4));
    // Sign-extended, so that packing saturates nothing.
    const auto first = [](__m128i v) { return _mm_srai_epi32(_mm_slli_epi32(v, 16), 16); };
    Stream(out + row * 2, _mm_packs_epi32(first(a), first(b)));
    Stream(out + kLine + row * 2, _mm_packs_epi32(_mm_srai_epi32(a, 16), _mm_srai_epi32(b, 16)));
  }
}

void PackInt4Step(const std::byte* codes, size_t row_bytes, const std::byte* scales, size_t scale_bytes,
                  std::byte* out) {
  alignas(kLine) std::byte pairs[kPanelRows][32];
  for (size_t row = 0; row < kPanelRows; ++row) PairNibbles(codes + row * row_bytes, pairs[row]);
  for (size_t half = 0; half < 2; ++half)
    TransposeHalf(pairs[half * kHalfRows], sizeof pairs[0], 8, out + half * 8 * kLine);
  PackInt4Scales(scales, scale_bytes, out + kInt4Codes);
}

}  // namespace

void TransposeHalf(const std::byte* first_row, size_t row_bytes, int words, std::byte* out) {
  const std::byte* rows[kHalfRows];
  for (int word = 0; word < words; word += 4, out += 4 * kLine) {
    for (size_t r = 0; r < kHalfRows; ++r)
      rows[r] = first_row + r * row_bytes + static_cast<size_t>(word) * 4;
    TransposeWords(rows, out);
  }
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
  const size_t row_bytes = source.data.size() / static_cast<size_t>(source.rows);
  const std::byte* rows = source.data.data() + at_row * row_bytes;
  const size_t step_bytes = StepBytes(format);
  for (int step = 0; step < Steps(cols); ++step, panel += step_bytes) {
    const size_t input = at_col + static_cast<size_t>(step) * kStepCols;
    if (format == WeightFormat::kRawInt4) {
      const size_t scale_bytes = static_cast<size_t>(source.cols) / kGroup * 2;
      PackInt4Step(rows + input / 2, row_bytes,
                   source.scales.data() + at_row * scale_bytes + input / kGroup * 2, scale_bytes, panel);
      continue;
    }
    const size_t value_bytes = format == WeightFormat::kBf16 ? 2 : 1;
    const int words = kStepCols * static_cast<int>(value_bytes) / 4;
    for (size_t half = 0; half < 2; ++half)
      TransposeHalf(rows + half * kHalfRows * row_bytes + input * value_bytes, row_bytes, words,
                    panel + half * static_cast<size_t>(words) * kLine);
  }
  _mm_sfence();  // streamed stores are seen by who sees what follows
}

}  // namespace numoe
