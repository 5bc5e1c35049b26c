#include "common/kernels/ggml_packing.h"

#include <emmintrin.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/kernels/kernels.h"
#include "common/kernels/layout.h"
#include "common/kernels/packing_kernels.h"

namespace numoe {
namespace {

using namespace layout;  // NOLINT: this file uses layout's names throughout

constexpr size_t kPairs = 32;         // bytes of one row's codes in a step
constexpr size_t kUppers = 16;        // bytes of one row's upper bits in a step
constexpr size_t kGroupNibbles = 16;  // bytes of a group's codes: inputs 0-15 in the low halves
static_assert(kPairs == 2 * kGroupNibbles && kGroupNibbles * 2 == kGroup);

// The content of a step's rows, gathered from their blocks.
struct Step {
  alignas(kLine) std::byte pairs[kPanelRows][kPairs] = {};
  alignas(kLine) std::byte uppers[kPanelRows][kUppers] = {};
  alignas(kLine) std::byte scales[4 * kPanelRows * 2] = {};  // as after the codes of a packed step
  std::byte* tail = nullptr;

  template <WeightFormat kFormat>
  void PutScale(int g, int row, const void* scale) {
    constexpr size_t kBytes = ScaleBytes(kFormat);
    std::memcpy(
        scales + ScaleOffset(kFormat, g) - ScaleOffset(kFormat, 0) + static_cast<size_t>(row) * kBytes, scale,
        kBytes);
  }
  void PutFactor(size_t factor, int row, const std::byte* half) {
    NUMOE_DCHECK(tail != nullptr && factor < 2);
    std::memcpy(tail + (factor * kPanelRows + static_cast<size_t>(row)) * 2, half, 2);
  }
};

uint8_t Byte(std::byte b) { return std::to_integer<uint8_t>(b); }

bool IsFinite(const std::byte* half) { return (Byte(half[1]) & 0x7cu) != 0x7cu; }

__m128i Load(const std::byte* data) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data)); }

// Converts groups whose bytes contain inputs j and j + 16 to bytes with inputs k and k + 32.
void PairGroups(const std::byte* first, const std::byte* second, std::byte* out) {
  const __m128i low = _mm_set1_epi8(0x0f), high = _mm_set1_epi8(static_cast<char>(0xf0));
  const __m128i a = Load(first), b = Load(second);
  const __m128i front = _mm_or_si128(_mm_and_si128(a, low), _mm_and_si128(_mm_slli_epi16(b, 4), high));
  const __m128i back = _mm_or_si128(_mm_and_si128(_mm_srli_epi16(a, 4), low), _mm_and_si128(b, high));
  _mm_store_si128(reinterpret_cast<__m128i*>(out), front);
  _mm_store_si128(reinterpret_cast<__m128i*>(out + 16), back);
}

constexpr std::byte kNoCodes[kGroupNibbles] = {};

// Each of these functions reads step `s` of a row whose blocks begin at `blocks`, with `groups` groups of
// weights. It returns a group whose factors, or the weights that they make, are not finite; -1 if there is
// none.

// Reads two blocks of 32: an exponent, fp16 d, or fp16 d and minimum; then 16 bytes of codes.
template <WeightFormat kFormat>
int ReadSmallBlocks(const std::byte* blocks, int s, int groups, int row, Step& out) {
  constexpr size_t kScale = ScaleBytes(kFormat), kHead = kScale * (HasMinima(kFormat) ? 2 : 1);
  const std::byte* block = blocks + static_cast<size_t>(2 * s) * (kHead + kGroupNibbles);
  const std::byte* codes[2] = {kNoCodes, kNoCodes};
  int bad = -1;
  for (int g = 0; g < groups; ++g, block += kHead + kGroupNibbles) {
    codes[g] = block + kHead;
    if constexpr (kFormat == WeightFormat::kMxfp4) {
      constexpr uint8_t kLargest = 252;  // 12 * 2^(253 - 128) is infinite
      const uint8_t exponent = Byte(block[0]), scale = exponent < 2 ? uint8_t{0} : exponent - 1;
      if (exponent > kLargest) bad = g;
      out.PutScale<kFormat>(g, row, &scale);
    } else {
      if (!IsFinite(block) || (HasMinima(kFormat) && !IsFinite(block + kScale))) bad = g;
      out.PutScale<kFormat>(g, row, block);
      if constexpr (HasMinima(kFormat)) out.PutScale<kFormat>(g + 2, row, block + kScale);
    }
  }
  PairGroups(codes[0], codes[1], out.pairs[row]);
  return bad;
}

// Reads an IQ4_XS block: fp16 d, u16 and 4 bytes of 6-bit scales, 128 bytes of codes.
int ReadIq4Xs(const std::byte* blocks, int s, int groups, int row, Step& out) {
  constexpr size_t kHead = 8, kCodes = kBlockSteps * kPairs;
  const std::byte* block = blocks + static_cast<size_t>(s / kBlockSteps) * (kHead + kCodes);
  const int first = 2 * (s % kBlockSteps);
  const unsigned high = Byte(block[2]) | (Byte(block[3]) << 8);
  for (int g = 0; g < groups; ++g) {
    const int sub = first + g;
    const unsigned low = Byte(block[4 + sub / 2]) >> (4 * (sub % 2)) & 15u;
    const auto scale = static_cast<int8_t>(static_cast<int>(low | (high >> (2 * sub) & 3u) << 4) - 32);
    out.PutScale<WeightFormat::kIq4Xs>(g, row, &scale);
  }
  const std::byte* codes = block + kHead + static_cast<size_t>(first) * kGroupNibbles;
  PairGroups(codes, groups == 2 ? codes + kGroupNibbles : kNoCodes, out.pairs[row]);
  if (first == 0) out.PutFactor(0, row, block);
  return IsFinite(block) ? -1 : 0;
}

// Reads a Q4_K block: fp16 d and dmin, 12 bytes of 6-bit scales and minima, 128 bytes of codes.
int ReadQ4K(const std::byte* blocks, int s, int groups, int row, Step& out) {
  constexpr size_t kHead = 16, kCodes = kBlockSteps * kPairs;
  const std::byte* block = blocks + static_cast<size_t>(s / kBlockSteps) * (kHead + kCodes);
  const int first = 2 * (s % kBlockSteps);
  uint32_t words[3];  // scales 0-3, minima 0-3, low bits of 4-7; above 6 bits the high bits of 4-7
  std::memcpy(words, block + 4, sizeof words);
  constexpr uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
  const bool low = first < 4;
  const uint32_t scales = low ? words[0] & kSix : (words[2] & kFour) | ((words[0] >> 6 & kTwo) << 4);
  const uint32_t minima = low ? words[1] & kSix : (words[2] >> 4 & kFour) | ((words[1] >> 6 & kTwo) << 4);
  for (int g = 0; g < groups; ++g) {
    const auto scale = static_cast<uint8_t>(scales >> (8 * (first % 4 + g)));
    const auto minimum = static_cast<uint8_t>(minima >> (8 * (first % 4 + g)));
    out.PutScale<WeightFormat::kQ4K>(g, row, &scale);
    out.PutScale<WeightFormat::kQ4K>(g + 2, row, &minimum);
  }
  std::memcpy(out.pairs[row], block + kHead + static_cast<size_t>(first) * kGroupNibbles, kPairs);
  if (first == 0) {
    out.PutFactor(0, row, block);
    out.PutFactor(1, row, block + 2);
  }
  return IsFinite(block) && IsFinite(block + 2) ? -1 : 0;
}

// Reads a Q6_K block: 128 bytes of the codes' lower bits and 64 of their upper bits, 16 int8 scales, fp16 d.
// Odd steps are in the upper halves of the bytes.
int ReadQ6K(const std::byte* blocks, int s, int groups, int row, Step& out) {
  constexpr size_t kLower = 128, kUpper = 64, kBlock = 210;
  const std::byte* block = blocks + static_cast<size_t>(s / kBlockSteps) * kBlock;
  const auto half = static_cast<size_t>(s % kBlockSteps / 2);
  const bool odd = s % 2 != 0;
  const std::byte* scales = block + kLower + kUpper + static_cast<size_t>(s % kBlockSteps) * 4;
  for (int g = 0; g < 2 * groups; ++g) out.PutScale<WeightFormat::kQ6K>(g, row, scales + g);
  const __m128i low = _mm_set1_epi8(0x0f), high = _mm_set1_epi8(static_cast<char>(0xf0));
  for (size_t i = 0; i < 2; ++i) {
    const __m128i a = Load(block + half * 64 + i * 16), b = Load(block + half * 64 + 32 + i * 16);
    const __m128i pairs =
        odd ? _mm_or_si128(_mm_and_si128(_mm_srli_epi16(a, 4), low), _mm_and_si128(b, high))
            : _mm_or_si128(_mm_and_si128(a, low), _mm_and_si128(_mm_slli_epi16(b, 4), high));
    _mm_store_si128(reinterpret_cast<__m128i*>(out.pairs[row] + i * 16), pairs);
  }
  // Combines a byte with the bits of k and k + 32 and one with those of k + 16 and k + 48 into a byte with
  // all four.
  const std::byte* upper = block + kLower + half * 32;
  const __m128i shift = _mm_cvtsi32_si128(odd ? 4 : 0), two = _mm_set1_epi8(3), next = _mm_set1_epi8(12);
  const __m128i a = _mm_srl_epi16(Load(upper), shift), b = _mm_srl_epi16(Load(upper + 16), shift);
  const __m128i front = _mm_or_si128(_mm_and_si128(a, two), _mm_slli_epi16(_mm_and_si128(b, two), 2));
  const __m128i back =
      _mm_or_si128(_mm_slli_epi16(_mm_and_si128(a, next), 2), _mm_slli_epi16(_mm_and_si128(b, next), 4));
  _mm_store_si128(reinterpret_cast<__m128i*>(out.uppers[row]), _mm_or_si128(front, back));
  if (s % kBlockSteps == 0) out.PutFactor(0, row, block + kBlock - 2);
  return IsFinite(block + kBlock - 2) ? -1 : 0;
}

using ReadStep = int (*)(const std::byte* blocks, int s, int groups, int row, Step& out);
struct Reader {
  WeightFormat format;
  ReadStep read;
};
constexpr Reader kReaders[] = {{WeightFormat::kQ4K, ReadQ4K},
                               {WeightFormat::kQ4_0, ReadSmallBlocks<WeightFormat::kQ4_0>},
                               {WeightFormat::kQ4_1, ReadSmallBlocks<WeightFormat::kQ4_1>},
                               {WeightFormat::kIq4Nl, ReadSmallBlocks<WeightFormat::kIq4Nl>},
                               {WeightFormat::kIq4Xs, ReadIq4Xs},
                               {WeightFormat::kMxfp4, ReadSmallBlocks<WeightFormat::kMxfp4>},
                               {WeightFormat::kQ6K, ReadQ6K}};

}  // namespace

absl::Status PackGgmlPanel(WeightFormat format, const MatrixView& source, int64_t row, int rows, int64_t col,
                           int cols, std::byte* panel) {
  const GgmlTraits& traits = TraitsOf(*GgmlTypeOf(format));
  NUMOE_DCHECK(source.format == MatrixFormat::kGgml && source.ggml == traits.type);
  NUMOE_DCHECK(rows <= kPanelRows && col % traits.block_values == 0 && cols % kGroup == 0);
  const Reader* reader = std::find_if(std::begin(kReaders), std::end(kReaders),
                                      [&](const Reader& r) { return r.format == format; });
  NUMOE_CHECK(reader != std::end(kReaders)) << WeightFormatName(format);
  const auto bytes_of = [&](int64_t values) {
    return static_cast<size_t>(values / traits.block_values * traits.block_bytes);
  };
  const std::byte* first =
      source.data.data() + static_cast<size_t>(row) * bytes_of(source.cols) + bytes_of(col);
  const size_t row_bytes = bytes_of(source.cols), step_bytes = StepBytes(format);
  std::byte* tail = panel + static_cast<size_t>(Steps(cols)) * step_bytes;
  if (rows < kPanelRows) std::memset(tail, 0, PanelBytes(format, cols) - static_cast<size_t>(tail - panel));
  const PackingKernels& kernels = BestPackingKernels();
  Step step;
  for (int s = 0; s < Steps(cols); ++s, panel += step_bytes) {
    const int groups = cols - s * kStepCols >= kStepCols ? 2 : 1;
    if (groups == 1) std::memset(step.scales, 0, sizeof step.scales);
    step.tail = tail + TailOffset(format, s);
    for (int r = 0; r < rows; ++r) {
      const int bad = reader->read(first + static_cast<size_t>(r) * row_bytes, s, groups, r, step);
      if (bad < 0) continue;
      const int64_t at = col + int64_t{s} * kStepCols + bad * kGroup;
      return absl::InvalidArgumentError(fmt::format(
          "{} block [{}, {}] has a factor that is not finite, or makes weights that are not; check the file",
          traits.name, row + r, at / traits.block_values * traits.block_values));
    }
    for (size_t half = 0; half < 2; ++half) {
      kernels.transpose_half(step.pairs[half * kHalfRows], kPairs, static_cast<int>(kPairs / 4),
                             panel + half * kInt4Codes / 2);
      if (format != WeightFormat::kQ6K) continue;
      kernels.transpose_half(step.uppers[half * kHalfRows], kUppers, static_cast<int>(kUppers / 4),
                             panel + kInt4Codes + half * (kQ6KCodes - kInt4Codes) / 2);
    }
    const size_t scales = ScaleOffset(format, 0);
    std::memcpy(panel + scales, step.scales, step_bytes - scales);
  }
  _mm_sfence();  // makes the streamed stores visible to threads that see later stores
  return absl::OkStatus();
}

}  // namespace numoe
