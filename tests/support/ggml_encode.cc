#include "tests/support/ggml_encode.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "common/formats/fp16.h"

namespace numoe {
namespace {

constexpr float kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr float kMxfp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void PutF16(uint8_t* at, float value) {
  const uint16_t bits = EncodeF16(value);
  std::memcpy(at, &bits, sizeof bits);
}
float Rounded(float value) { return DecodeF16(EncodeF16(value)); }

int Code(float x, float scale, int low, int high) {
  return scale == 0 ? std::clamp(0, low, high)
                    : static_cast<int>(std::clamp(std::nearbyint(x / scale), static_cast<float>(low),
                                                  static_cast<float>(high)));
}

int Nearest(float x, const float* levels) {
  int best = 0;
  for (int i = 1; i < 16; ++i) {
    if (std::fabs(levels[i] - x) < std::fabs(levels[best] - x)) best = i;
  }
  return best;
}

float LargestOf(const float* x, int n) {  // by magnitude, with its sign
  float largest = 0;
  for (int i = 0; i < n; ++i) largest = std::fabs(x[i]) > std::fabs(largest) ? x[i] : largest;
  return largest;
}

// 32 codes of 4 bits: the first 16 in the low halves. Of 5 bits: the fifth in `high`.
void PutNibbles(const int* codes, uint8_t* out) {
  for (int j = 0; j < 16; ++j) out[j] = static_cast<uint8_t>((codes[j] & 15) | ((codes[j + 16] & 15) << 4));
}
void PutFifthBits(const int* codes, uint8_t* out) {
  uint32_t high = 0;
  for (int j = 0; j < 32; ++j) high |= static_cast<uint32_t>(codes[j] >> 4 & 1) << j;
  std::memcpy(out, &high, sizeof high);
}

// Q4_0 and Q5_0, Q4_1 and Q5_1.
void EncodeSmall(const float* x, int bits, bool has_minimum, uint8_t* out) {
  const int levels = 1 << bits;
  float d = 0, m = 0;
  if (has_minimum) {
    const auto [low, high] = std::minmax_element(x, x + 32);
    d = Rounded((*high - *low) / static_cast<float>(levels - 1));
    m = Rounded(*low);
  } else {
    d = Rounded(LargestOf(x, 32) / static_cast<float>(-levels / 2));
    m = d * static_cast<float>(-levels / 2);
  }
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = Code(x[i] - m, d, 0, levels - 1);
  PutF16(out, d);
  out += 2;
  if (has_minimum) {
    PutF16(out, m);
    out += 2;
  }
  if (bits == 5) {
    PutFifthBits(codes, out);
    out += 4;
  }
  PutNibbles(codes, out);
}

void EncodeQ8_0(const float* x, uint8_t* out) {
  const float d = Rounded(std::fabs(LargestOf(x, 32)) / 127);
  PutF16(out, d);
  for (int i = 0; i < 32; ++i) out[2 + i] = static_cast<uint8_t>(Code(x[i], d, -127, 127));
}

void EncodeIq4Nl(const float* x, uint8_t* out) {
  const float d = Rounded(LargestOf(x, 32) / -127);
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = d == 0 ? 8 : Nearest(x[i] / d, kIq4Levels);
  PutF16(out, d);
  PutNibbles(codes, out + 2);
}

void EncodeMxfp4(const float* x, uint8_t* out) {
  const float top = std::fabs(LargestOf(x, 32));
  const int exponent = top == 0 ? 0 : std::clamp(std::ilogb(top) - 2 + 127, 0, 254);
  const float d = std::ldexp(1.0f, exponent - 128);
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = Nearest(x[i] / d, kMxfp4Levels);
  out[0] = static_cast<uint8_t>(exponent);
  PutNibbles(codes, out + 1);
}

// Scales and minima of sub-blocks of `width` values of a K block, themselves rounded to `bits` bits.
struct SuperScales {
  float d = 0, dmin = 0;
  int scale[16] = {}, minimum[16] = {};

  SuperScales(const float* x, int width, int levels, int bits) {
    const int count = 256 / width, steps = (1 << bits) - 1;
    float scales[16] = {}, minima[16] = {};
    for (int j = 0; j < count; ++j) {
      const auto [low, high] = std::minmax_element(x + j * width, x + (j + 1) * width);
      minima[j] = -std::min(*low, 0.0f);
      scales[j] = (std::max(*high, 0.0f) + minima[j]) / static_cast<float>(levels - 1);
    }
    d = Rounded(*std::max_element(scales, scales + count) / static_cast<float>(steps));
    dmin = Rounded(*std::max_element(minima, minima + count) / static_cast<float>(steps));
    for (int j = 0; j < count; ++j) {
      scale[j] = Code(scales[j], d, 0, steps);
      minimum[j] = Code(minima[j], dmin, 0, steps);
    }
  }
  int CodeOf(float x, int j, int levels) const {
    return Code(x + dmin * static_cast<float>(minimum[j]), d * static_cast<float>(scale[j]), 0, levels - 1);
  }
};

// Q4_K and Q5_K.
void EncodeK45(const float* x, int bits, uint8_t* out) {
  const SuperScales s(x, 32, 1 << bits, 6);
  PutF16(out, s.d);
  PutF16(out + 2, s.dmin);
  uint8_t* packed = out + 4;
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(s.scale[j] | ((s.scale[j + 4] >> 4) << 6));
    packed[j + 4] = static_cast<uint8_t>(s.minimum[j] | ((s.minimum[j + 4] >> 4) << 6));
    packed[j + 8] = static_cast<uint8_t>((s.scale[j + 4] & 15) | ((s.minimum[j + 4] & 15) << 4));
  }
  uint8_t* high = out + 16;
  uint8_t* low = bits == 5 ? out + 48 : out + 16;
  for (int i = 0; i < 256; ++i) {
    const int j = i / 32, code = s.CodeOf(x[i], j, 1 << bits);
    low[32 * (j / 2) + i % 32] |= static_cast<uint8_t>((code & 15) << (4 * (j % 2)));
    if (bits == 5) high[i % 32] |= static_cast<uint8_t>((code >> 4) << j);
  }
}

void EncodeQ2_K(const float* x, uint8_t* out) {
  const SuperScales s(x, 16, 4, 4);
  for (int j = 0; j < 16; ++j) out[j] = static_cast<uint8_t>(s.scale[j] | (s.minimum[j] << 4));
  PutF16(out + 80, s.d);
  PutF16(out + 82, s.dmin);
  for (int i = 0; i < 256; ++i) {
    const int in_half = i % 128;
    out[16 + 32 * (i / 128) + in_half % 32] |=
        static_cast<uint8_t>(s.CodeOf(x[i], i / 16, 4) << (2 * (in_half / 32)));
  }
}

// Signed scales of 16 sub-blocks for codes that begin at `lowest`.
void SignedScales(const float* x, int lowest, int steps, float& d, int* scale) {
  float largest[16];
  for (int j = 0; j < 16; ++j) largest[j] = LargestOf(x + 16 * j, 16) / static_cast<float>(lowest);
  d = Rounded(LargestOf(largest, 16) / static_cast<float>(-steps));
  for (int j = 0; j < 16; ++j) scale[j] = Code(largest[j], d, -steps, steps - 1);
}

void EncodeQ3_K(const float* x, uint8_t* out) {
  float d = 0;
  int scale[16];
  SignedScales(x, -4, 32, d, scale);
  PutF16(out + 108, d);
  for (int j = 0; j < 16; ++j) {
    const int bits = scale[j] + 32;
    out[96 + j % 8] |= static_cast<uint8_t>((bits & 15) << (4 * (j / 8)));
    out[104 + j % 4] |= static_cast<uint8_t>((bits >> 4) << (2 * (j / 4)));
  }
  for (int i = 0; i < 256; ++i) {
    const int code = Code(x[i], d * static_cast<float>(scale[i / 16]), -4, 3) + 4;
    const int in_half = i % 128;
    out[32 + 32 * (i / 128) + in_half % 32] |= static_cast<uint8_t>((code & 3) << (2 * (in_half / 32)));
    out[i % 32] |= static_cast<uint8_t>((code >> 2) << (i / 32));
  }
}

void EncodeQ6_K(const float* x, uint8_t* out) {
  float d = 0;
  int scale[16];
  SignedScales(x, -32, 128, d, scale);
  PutF16(out + 208, d);
  for (int j = 0; j < 16; ++j) out[192 + j] = static_cast<uint8_t>(scale[j]);
  for (int i = 0; i < 256; ++i) {
    const int code = Code(x[i], d * static_cast<float>(scale[i / 16]), -32, 31) + 32;
    const int half = i / 128, plane = i % 128 / 32, at = i % 32;
    out[64 * half + 32 * (plane % 2) + at] |= static_cast<uint8_t>((code & 15) << (4 * (plane / 2)));
    out[128 + 32 * half + at] |= static_cast<uint8_t>((code >> 4) << (2 * plane));
  }
}

void EncodeIq4Xs(const float* x, uint8_t* out) {
  float largest[8];
  for (int j = 0; j < 8; ++j) largest[j] = LargestOf(x + 32 * j, 32) / -127;
  const float d = Rounded(LargestOf(largest, 8) / -32);
  uint16_t high = 0;
  PutF16(out, d);
  for (int j = 0; j < 8; ++j) {
    const int scale = Code(largest[j], d, -32, 31);
    const float dl = d * static_cast<float>(scale);
    high = static_cast<uint16_t>(high | ((scale + 32) >> 4) << (2 * j));
    out[4 + j / 2] |= static_cast<uint8_t>(((scale + 32) & 15) << (4 * (j % 2)));
    int codes[32];
    for (int i = 0; i < 32; ++i) codes[i] = dl == 0 ? 8 : Nearest(x[32 * j + i] / dl, kIq4Levels);
    PutNibbles(codes, out + 8 + 16 * j);
  }
  std::memcpy(out + 2, &high, sizeof high);
}

void EncodeBlock(GgmlType type, const float* x, uint8_t* out) {
  switch (type) {
    case GgmlType::kF32:
      std::memcpy(out, x, sizeof *x);
      return;
    case GgmlType::kF16:
      return PutF16(out, *x);
    case GgmlType::kBF16: {
      const uint16_t bits = EncodeBf16(*x);
      std::memcpy(out, &bits, sizeof bits);
      return;
    }
    case GgmlType::kQ4_0:
      return EncodeSmall(x, 4, false, out);
    case GgmlType::kQ4_1:
      return EncodeSmall(x, 4, true, out);
    case GgmlType::kQ5_0:
      return EncodeSmall(x, 5, false, out);
    case GgmlType::kQ5_1:
      return EncodeSmall(x, 5, true, out);
    case GgmlType::kQ8_0:
      return EncodeQ8_0(x, out);
    case GgmlType::kQ2_K:
      return EncodeQ2_K(x, out);
    case GgmlType::kQ3_K:
      return EncodeQ3_K(x, out);
    case GgmlType::kQ4_K:
      return EncodeK45(x, 4, out);
    case GgmlType::kQ5_K:
      return EncodeK45(x, 5, out);
    case GgmlType::kQ6_K:
      return EncodeQ6_K(x, out);
    case GgmlType::kIq4Nl:
      return EncodeIq4Nl(x, out);
    case GgmlType::kIq4Xs:
      return EncodeIq4Xs(x, out);
    case GgmlType::kMxfp4:
      return EncodeMxfp4(x, out);
  }
}

}  // namespace

std::vector<std::byte> EncodeGgml(GgmlType type, absl::Span<const float> values) {
  const GgmlTraits& traits = TraitsOf(type);
  NUMOE_CHECK_EQ(values.size() % static_cast<size_t>(traits.block_values), 0u) << traits.name;
  const size_t blocks = values.size() / static_cast<size_t>(traits.block_values);
  std::vector<std::byte> out(blocks * static_cast<size_t>(traits.block_bytes));
  for (size_t b = 0; b < blocks; ++b) {
    EncodeBlock(type, values.data() + b * static_cast<size_t>(traits.block_values),
                reinterpret_cast<uint8_t*>(out.data()) + b * static_cast<size_t>(traits.block_bytes));
  }
  return out;
}

}  // namespace numoe
