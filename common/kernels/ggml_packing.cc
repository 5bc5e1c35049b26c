#include "common/kernels/ggml_packing.h"

#include <emmintrin.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/kernels/kernels.h"
#include "common/kernels/layout.h"
#include "common/kernels/panel_packing.h"

namespace numoe {
namespace {

using namespace layout;  // NOLINT: the file is about nothing else

constexpr size_t kPairs = 32;         // bytes of one row's codes in a step
constexpr size_t kGroupNibbles = 16;  // bytes of a group's codes: inputs 0-15 in the low halves

// What one row of a step needs, wherever its block keeps it: codes of two groups of 32 and their scales.
struct RowStep {
  std::byte pairs[kPairs] = {};
  std::byte scales[4][2] = {};   // [group], then the groups' minima: fp16, or one byte
  std::byte factors[2][2] = {};  // fp16: of the block's scales, of its minima
  int bad = -1;                  // a group whose factors are not finite, or make weights that are not
};

uint8_t Byte(std::byte b) { return std::to_integer<uint8_t>(b); }

bool IsFinite(const std::byte* half) { return (Byte(half[1]) & 0x7cu) != 0x7cu; }

__m128i Load(const std::byte* data) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data)); }

// Groups whose bytes hold inputs j and j + 16, to bytes of inputs k and k + 32.
void PairGroups(const std::byte* first, const std::byte* second, std::byte* out) {
  const __m128i low = _mm_set1_epi8(0x0f), high = _mm_set1_epi8(static_cast<char>(0xf0));
  const __m128i a = Load(first), b = Load(second);
  const __m128i front = _mm_or_si128(_mm_and_si128(a, low), _mm_and_si128(_mm_slli_epi16(b, 4), high));
  const __m128i back = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(a, 4), low), _mm_and_si128(b, high));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), front);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16), back);
}

constexpr std::byte kNoCodes[kGroupNibbles] = {};

// Two blocks of 32: an exponent, fp16 d, or fp16 d and minimum; then 16 bytes of codes.
void ReadSmallBlocks(WeightFormat format, const std::byte* block, int groups, RowStep& out) {
  const size_t scale_bytes = ScaleBytes(format), head_bytes = scale_bytes * (HasMinima(format) ? 2 : 1);
  const std::byte* codes[2] = {kNoCodes, kNoCodes};
  for (int g = 0; g < groups; ++g, block += head_bytes + kGroupNibbles) {
    codes[g] = block + head_bytes;
    if (format == WeightFormat::kMxfp4) {
      const uint8_t exponent = Byte(block[0]);
      constexpr uint8_t kLargest = 252;  // 12 * 2^(253 - 128) is infinite
      if (exponent > kLargest) out.bad = g;
      out.scales[g][0] = static_cast<std::byte>(exponent < 2 ? 0 : exponent - 1);
    } else {
      if (!IsFinite(block)) out.bad = g;
      std::memcpy(out.scales[g], block, scale_bytes);
      if (!HasMinima(format)) continue;
      if (!IsFinite(block + scale_bytes)) out.bad = g;
      std::memcpy(out.scales[g + 2], block + scale_bytes, scale_bytes);
    }
  }
  PairGroups(codes[0], codes[1], out.pairs);
}

// Step `s` of an IQ4_XS block: fp16 d, u16 and 4 bytes of 6-bit scales, 128 bytes of codes.
void ReadIq4XsStep(const std::byte* block, int s, int groups, RowStep& out) {
  const unsigned high = Byte(block[2]) | (Byte(block[3]) << 8);
  const std::byte* codes = block + 8 + static_cast<size_t>(s) * 2 * kGroupNibbles;
  if (!IsFinite(block)) out.bad = 0;
  std::memcpy(out.factors[0], block, 2);
  for (int g = 0; g < groups; ++g) {
    const int sub = 2 * s + g;
    const unsigned low = Byte(block[4 + sub / 2]) >> (4 * (sub % 2)) & 15u;
    out.scales[g][0] = static_cast<std::byte>(static_cast<int>(low | (high >> (2 * sub) & 3u) << 4) - 32);
  }
  PairGroups(codes, groups == 2 ? codes + kGroupNibbles : kNoCodes, out.pairs);
}

// Step `s` of a Q4_K block: fp16 d and dmin, 12 bytes of 6-bit scales and minima, 128 bytes of codes.
void ReadQ4KStep(const std::byte* block, int s, int groups, RowStep& out) {
  uint8_t packed[12];
  std::memcpy(packed, block + 4, sizeof packed);
  if (!IsFinite(block) || !IsFinite(block + 2)) out.bad = 0;
  std::memcpy(out.factors, block, sizeof out.factors);
  std::memcpy(out.pairs, block + 16 + static_cast<size_t>(s) * kPairs, kPairs);
  for (int g = 0; g < groups; ++g) {
    const int j = 2 * s + g;
    const int scale = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | (packed[j - 4] >> 6 << 4);
    const int minimum = j < 4 ? packed[j + 4] & 63 : (packed[j + 4] >> 4) | (packed[j] >> 6 << 4);
    out.scales[g][0] = static_cast<std::byte>(scale);
    out.scales[g + 2][0] = static_cast<std::byte>(minimum);
  }
}

// Step `step` of a row whose blocks begin at `blocks`, with `groups` groups of weights.
RowStep ReadRowStep(WeightFormat format, const std::byte* blocks, int step, int groups) {
  const auto block_bytes = static_cast<size_t>(TraitsOf(*GgmlTypeOf(format)).block_bytes);
  RowStep row;
  if (format == WeightFormat::kQ4K || format == WeightFormat::kIq4Xs) {
    const std::byte* block = blocks + static_cast<size_t>(step / kBlockSteps) * block_bytes;
    (format == WeightFormat::kQ4K ? ReadQ4KStep : ReadIq4XsStep)(block, step % kBlockSteps, groups, row);
  } else {
    ReadSmallBlocks(format, blocks + static_cast<size_t>(2 * step) * block_bytes, groups, row);
  }
  return row;
}

void StoreScales(WeightFormat format, const RowStep& row, int r, std::byte* step, std::byte* tail) {
  const size_t bytes = ScaleBytes(format);
  for (int g = 0; g < (HasMinima(format) ? 4 : 2); ++g)
    std::memcpy(step + ScaleOffset(format, g) + static_cast<size_t>(r) * bytes, row.scales[g], bytes);
  for (size_t i = 0; i < BlockFactors(format); ++i)
    std::memcpy(tail + (i * kPanelRows + static_cast<size_t>(r)) * 2, row.factors[i], 2);
}

}  // namespace

absl::Status PackGgmlPanel(WeightFormat format, const MatrixView& source, int64_t row, int rows, int64_t col,
                           int cols, std::byte* panel) {
  const GgmlTraits& traits = TraitsOf(*GgmlTypeOf(format));
  NUMOE_DCHECK(source.format == MatrixFormat::kGgml && source.ggml == traits.type);
  NUMOE_DCHECK(rows <= kPanelRows && col % traits.block_values == 0 && cols % kGroup == 0);
  const int steps = Steps(cols);
  const size_t step_bytes = StepBytes(format);
  const auto bytes_of = [&](int64_t values) {
    return static_cast<size_t>(values / traits.block_values * traits.block_bytes);
  };
  const std::byte* first =
      source.data.data() + static_cast<size_t>(row) * bytes_of(source.cols) + bytes_of(col);
  alignas(kLine) std::byte pairs[kPanelRows][kPairs] = {};
  if (rows < kPanelRows) std::memset(panel, 0, PanelBytes(format, cols));
  for (int step = 0; step < steps; ++step) {
    std::byte* out = panel + static_cast<size_t>(step) * step_bytes;
    std::byte* tail = panel + static_cast<size_t>(steps) * step_bytes + TailOffset(format, step);
    const int groups = cols - step * kStepCols >= kStepCols ? 2 : 1;
    for (int r = 0; r < rows; ++r) {
      const RowStep read =
          ReadRowStep(format, first + static_cast<size_t>(r) * bytes_of(source.cols), step, groups);
      if (read.bad >= 0) {
        const int64_t at = col + int64_t{step} * kStepCols + read.bad * kGroup;
        return absl::InvalidArgumentError(
            fmt::format("{} block [{}, {}] has a factor that is not finite, or makes weights that are not; "
                        "check the file",
                        traits.name, row + r, at / traits.block_values * traits.block_values));
      }
      std::memcpy(pairs[r], read.pairs, kPairs);
      StoreScales(format, read, r, out, tail);
    }
    for (size_t half = 0; half < 2; ++half) {
      TransposeHalf(pairs[half * kHalfRows], kPairs, static_cast<int>(kPairs / 4),
                    out + half * kInt4Codes / 2);
    }
  }
  _mm_sfence();  // streamed stores are seen by who sees what follows
  return absl::OkStatus();
}

}  // namespace numoe
