#include "common/formats/ggml_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "common/formats/fp16.h"

namespace numoe {
namespace {

constexpr int kSuper = 256;  // values of a K block

constexpr GgmlTraits kTraits[] = {
    {GgmlType::kF32, "F32", 1, 4},          {GgmlType::kF16, "F16", 1, 2},
    {GgmlType::kBF16, "BF16", 1, 2},        {GgmlType::kQ4_0, "Q4_0", 32, 18},
    {GgmlType::kQ4_1, "Q4_1", 32, 20},      {GgmlType::kQ5_0, "Q5_0", 32, 22},
    {GgmlType::kQ5_1, "Q5_1", 32, 24},      {GgmlType::kQ8_0, "Q8_0", 32, 34},
    {GgmlType::kIq4Nl, "IQ4_NL", 32, 18},   {GgmlType::kMxfp4, "MXFP4", 32, 17},
    {GgmlType::kQ2_K, "Q2_K", kSuper, 84},  {GgmlType::kQ3_K, "Q3_K", kSuper, 110},
    {GgmlType::kQ4_K, "Q4_K", kSuper, 144}, {GgmlType::kQ5_K, "Q5_K", kSuper, 176},
    {GgmlType::kQ6_K, "Q6_K", kSuper, 210}, {GgmlType::kIq4Xs, "IQ4_XS", kSuper, 136},
};

constexpr bool BlocksAreGroups() {
  return std::all_of(std::begin(kTraits), std::end(kTraits), [](const GgmlTraits& traits) {
    return traits.block_bytes > 0 && (traits.block_values == 1 || traits.block_values % kGgmlGroup == 0);
  });
}
static_assert(BlocksAreGroups(), "a block must be one value or whole groups");
// The values of IQ4's codes, and E2M1's doubled (ggml includes the factor of a half in the scale).
constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kMxfp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <typename T>
T Load(const uint8_t* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}
float LoadF16(const uint8_t* data) { return DecodeF16(Load<uint16_t>(data)); }

// Returns 2^(e - 128); the two smallest results are subnormal.
float DecodeE8M0Half(uint8_t e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
  return std::bit_cast<float>(bits);
}

// Reads the nibbles of 32 values: the low halves are the first 16.
template <typename Map>
void FromNibbles(const uint8_t* packed, int8_t* codes, Map map) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = map(packed[j] & 15, j);
    codes[j + 16] = map(packed[j] >> 4, j + 16);
  }
}

// Reads the 6-bit scale and minimum of sub-block `j` of Q4_K and Q5_K.
void ScaleAndMin(const uint8_t* s, int j, int& scale, int& minimum) {
  NUMOE_DCHECK(0 <= j && j < kSuper / kGgmlGroup) << j;
  if (j < 4) {
    scale = s[j] & 63;
    minimum = s[j + 4] & 63;
  } else {
    scale = (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4);
    minimum = (s[j + 4] >> 4) | ((s[j] >> 6) << 4);
  }
}

// Reads the signed 6-bit scale of sub-block `i` of Q3_K.
int Q3Scale(const uint8_t* scales, int i) {
  NUMOE_DCHECK(0 <= i && i < 16) << i;
  const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
  const int high = (scales[8 + i % 4] >> (2 * (i / 4))) & 3;
  return (low | (high << 4)) - 32;
}

void DecodeQ4_1(const uint8_t* block, float* out) {
  const float d = LoadF16(block), m = LoadF16(block + 2);
  const uint8_t* qs = block + 4;
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(qs[j] & 15) + m;
    out[j + 16] = d * static_cast<float>(qs[j] >> 4) + m;
  }
}

void DecodeQ5_1(const uint8_t* block, float* out) {
  const float d = LoadF16(block), m = LoadF16(block + 2);
  const auto high = Load<uint32_t>(block + 4);
  const uint8_t* qs = block + 8;
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>((qs[j] & 15u) | ((high >> j & 1u) << 4)) + m;
    out[j + 16] = d * static_cast<float>((qs[j] >> 4) | ((high >> (j + 16) & 1u) << 4)) + m;
  }
}

void DecodeQ2_K(const uint8_t* block, float* out) {
  const uint8_t* scales = block;
  const float d = LoadF16(block + 80), dmin = LoadF16(block + 82);
  for (int i = 0; i < 16; ++i) {  // sub-blocks of 16 in the order of the output
    const float scale = d * static_cast<float>(scales[i] & 15);
    const float minimum = dmin * static_cast<float>(scales[i] >> 4);
    const uint8_t* q = block + 16 + 32 * (i / 8) + 16 * (i % 2);
    const int shift = 2 * (i % 8 / 2);
    for (int l = 0; l < 16; ++l) out[16 * i + l] = scale * static_cast<float>((q[l] >> shift) & 3) - minimum;
  }
}

void DecodeQ3_K(const uint8_t* block, float* out) {
  const uint8_t* scales = block + 96;
  const float d = LoadF16(block + 108);
  for (int i = 0; i < 16; ++i) {
    const float scale = d * static_cast<float>(Q3Scale(scales, i));
    const uint8_t* high = block + 16 * (i % 2);
    const uint8_t* q = block + 32 + 32 * (i / 8) + 16 * (i % 2);
    const int plane = i / 2, shift = 2 * (plane % 4);
    for (int l = 0; l < 16; ++l) {
      const int code = ((q[l] >> shift) & 3) - ((high[l] >> plane & 1) != 0 ? 0 : 4);
      out[16 * i + l] = scale * static_cast<float>(code);
    }
  }
}

void DecodeQ4_K(const uint8_t* block, float* out) {
  const float d = LoadF16(block), dmin = LoadF16(block + 2);
  for (int j = 0; j < 8; ++j) {
    int sc = 0, mn = 0;
    ScaleAndMin(block + 4, j, sc, mn);
    const float scale = d * static_cast<float>(sc), minimum = dmin * static_cast<float>(mn);
    const uint8_t* q = block + 16 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int l = 0; l < 32; ++l) out[32 * j + l] = scale * static_cast<float>((q[l] >> shift) & 15) - minimum;
  }
}

void DecodeQ5_K(const uint8_t* block, float* out) {
  const float d = LoadF16(block), dmin = LoadF16(block + 2);
  const uint8_t* high = block + 16;
  for (int j = 0; j < 8; ++j) {
    int sc = 0, mn = 0;
    ScaleAndMin(block + 4, j, sc, mn);
    const float scale = d * static_cast<float>(sc), minimum = dmin * static_cast<float>(mn);
    const uint8_t* q = block + 48 + 32 * (j / 2);
    const int shift = 4 * (j % 2);
    for (int l = 0; l < 32; ++l) {
      const int code = ((q[l] >> shift) & 15) | ((high[l] >> j & 1) << 4);
      out[32 * j + l] = scale * static_cast<float>(code) - minimum;
    }
  }
}

void DecodeQ6_K(const uint8_t* block, float* out) {
  const float d = LoadF16(block + 208);
  for (int i = 0; i < 16; ++i) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + i]));
    const int half = i / 8, plane = i % 8 / 2;  // a plane of 32 values has its own place in the bytes
    const uint8_t* low = block + 64 * half + 32 * (plane % 2) + 16 * (i % 2);
    const uint8_t* high = block + 128 + 32 * half + 16 * (i % 2);
    const int low_shift = 4 * (plane / 2), high_shift = 2 * plane;
    for (int l = 0; l < 16; ++l) {
      const int code = ((low[l] >> low_shift) & 15) | (((high[l] >> high_shift) & 3) << 4);
      out[16 * i + l] = scale * static_cast<float>(code - 32);
    }
  }
}

void DecodeByCodes(GgmlType type, const std::byte* block, int groups, float* out) {
  int8_t codes[kGgmlGroup];
  for (int g = 0; g < groups; ++g) {
    const float scale = DecodeGgmlInt8(type, block, g, codes);
    for (int i = 0; i < kGgmlGroup; ++i) out[kGgmlGroup * g + i] = scale * static_cast<float>(codes[i]);
  }
}

void DecodeBlock(GgmlType type, const std::byte* at, float* out) {
  const auto* block = reinterpret_cast<const uint8_t*>(at);
  switch (type) {
    case GgmlType::kF32:
      *out = Load<float>(block);
      return;
    case GgmlType::kF16:
      *out = LoadF16(block);
      return;
    case GgmlType::kBF16:
      *out = DecodeBf16(Load<uint16_t>(block));
      return;
    case GgmlType::kQ4_1:
      return DecodeQ4_1(block, out);
    case GgmlType::kQ5_1:
      return DecodeQ5_1(block, out);
    case GgmlType::kQ2_K:
      return DecodeQ2_K(block, out);
    case GgmlType::kQ3_K:
      return DecodeQ3_K(block, out);
    case GgmlType::kQ4_K:
      return DecodeQ4_K(block, out);
    case GgmlType::kQ5_K:
      return DecodeQ5_K(block, out);
    case GgmlType::kQ6_K:
      return DecodeQ6_K(block, out);
    case GgmlType::kQ4_0:
    case GgmlType::kQ5_0:
    case GgmlType::kQ8_0:
    case GgmlType::kIq4Nl:
    case GgmlType::kMxfp4:
      return DecodeByCodes(type, at, 1, out);
    case GgmlType::kIq4Xs:
      return DecodeByCodes(type, at, kSuper / kGgmlGroup, out);
  }
}

float DecodeIq4Xs(const uint8_t* block, int group, int8_t* codes) {
  NUMOE_DCHECK(0 <= group && group < kSuper / kGgmlGroup) << group;
  const auto scales_high = Load<uint16_t>(block + 2);
  const int low = (block[4 + group / 2] >> (4 * (group % 2))) & 15;
  const int scale = low | (((scales_high >> (2 * group)) & 3) << 4);
  FromNibbles(block + 8 + 16 * group, codes, [](int n, int) { return kIq4Levels[n]; });
  return LoadF16(block) * static_cast<float>(scale - 32);
}

}  // namespace

const GgmlTraits* FindGgmlTraits(uint32_t id) {
  for (const GgmlTraits& traits : kTraits) {
    if (static_cast<uint32_t>(traits.type) == id) return &traits;
  }
  return nullptr;
}

const GgmlTraits& TraitsOf(GgmlType type) {
  const GgmlTraits* traits = FindGgmlTraits(static_cast<uint32_t>(type));
  NUMOE_CHECK(traits != nullptr) << static_cast<uint32_t>(type);
  return *traits;
}

void DecodeGgmlBlocks(GgmlType type, const std::byte* blocks, int64_t count, float* out) {
  NUMOE_CHECK_GE(count, 0);
  const GgmlTraits& traits = TraitsOf(type);
  for (int64_t i = 0; i < count; ++i)
    DecodeBlock(type, blocks + i * traits.block_bytes, out + i * traits.block_values);
}

bool GgmlIsInt8(GgmlType type) {
  switch (type) {
    case GgmlType::kQ4_0:
    case GgmlType::kQ5_0:
    case GgmlType::kQ8_0:
    case GgmlType::kIq4Nl:
    case GgmlType::kIq4Xs:
    case GgmlType::kMxfp4:
      return true;
    default:
      return false;
  }
}

float DecodeGgmlInt8(GgmlType type, const std::byte* at, int group, int8_t* codes) {
  const auto* block = reinterpret_cast<const uint8_t*>(at);
  NUMOE_DCHECK(0 <= group && group < TraitsOf(type).block_values / kGgmlGroup);
  switch (type) {
    case GgmlType::kQ4_0:
      FromNibbles(block + 2, codes, [](int n, int) { return static_cast<int8_t>(n - 8); });
      break;
    case GgmlType::kQ5_0: {
      const auto high = Load<uint32_t>(block + 2);
      FromNibbles(block + 6, codes, [high](int n, int j) {
        return static_cast<int8_t>((n | static_cast<int>((high >> j & 1u) << 4)) - 16);
      });
      break;
    }
    case GgmlType::kQ8_0:
      std::memcpy(codes, block + 2, kGgmlGroup);
      break;
    case GgmlType::kIq4Nl:
      FromNibbles(block + 2, codes, [](int n, int) { return kIq4Levels[n]; });
      break;
    case GgmlType::kMxfp4:
      FromNibbles(block + 1, codes, [](int n, int) { return kMxfp4Levels[n]; });
      return DecodeE8M0Half(block[0]);
    case GgmlType::kIq4Xs:
      return DecodeIq4Xs(block, group, codes);
    default:
      NUMOE_CHECK(false) << TraitsOf(type).name << " has no codes with one scale";
  }
  return LoadF16(block);
}

}  // namespace numoe
