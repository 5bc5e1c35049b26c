// Quantised activations: the formats that fast kernels read instead of fp32, one row at a time.
//
// A row is a sequence of steps of 64 inputs, like the weights that it is multiplied by (layout.h). Each step
// is independent of the others, so that a part of a row can be quantised where it is computed. Inputs beyond
// `cols` are zero.
//   kFp32       64 x fp32, in order and exact, for instruction sets without products of BF16
//   kFp32Fp8    the same times 2^60, for fp8 weights: their codes are cheapest to decode to fp32 values that
//               are 2^-120 of the weights, and with this factor the products are not subnormal
//   kBf16       64 x bf16, in order
//   kBf16Quads  64 x bf16, each four inputs in the order 0 2 1 3, which a shift of four packed nibbles gives
//   kInt8       64 x int8, then fp32 scale[2] of the groups of 32 (largest magnitude / 127), then
//               int32 correction[2] = -8 * sum of the group's codes, for weights stored with an offset of 8.
//               AVX2 sums in lanes of 16 bits: instead of each correction it has two int16, one for the
//               first two codes of each four and one for the other two
//   kInt8Pair   two kInt8 steps: the values, and their rounding errors, so 15 bits together. A token's
//               products are the sum of both. This is more exact than BF16, for instruction sets and formats
//               that have INT8 only
//   kInt16      64 x int16 (largest magnitude of 32 / 32767), each four inputs in the order 0 2 1 3, then
//               fp32 scale[2], where 16-bit products cost no more than those of 8 bits
//   kTiles, kTileQuads   rows like kBf16 and kBf16Quads, to be multiplied by matrix units
// In the INT formats a group with a value that is not finite has the scale NaN, so that all outputs of its
// token are NaN and nothing hides it. A group whose largest magnitude is below kLeastTop becomes zero. Like
// all files that kernel sources include, this one holds no library code.
#pragma once

#include "common/kernels/kernel_types.h"

namespace numoe {

enum class ActivationFormat : uint8_t {
  kFloat,
  kFp32,
  kFp32Fp8,
  kBf16,
  kBf16Quads,
  kInt8,
  kInt8Pair,
  kTiles,
  kTileQuads,
  kInt16
};
inline constexpr size_t kActivationFormats = static_cast<size_t>(ActivationFormat::kInt16) + 1;

/// y as in MatmulArgs; x are `tokens` quantised rows of weight.cols inputs, x_stride bytes apart.
struct QuantisedMatmulArgs {
  PackedMatrix weight;
  int row_begin = 0;
  int row_end = 0;
  ActivationFormat x_format = ActivationFormat::kFloat;
  const std::byte* x = nullptr;
  size_t x_stride = 0;  // bytes
  int tokens = 0;
  float* y = nullptr;
  int64_t y_stride = 0;             // floats
  const std::byte* next = nullptr;  // packed weights that the caller reads next, to be prefetched; or null
};

namespace quantised {

inline constexpr float kFp32Fp8Factor = 0x1p60f;
inline constexpr size_t kBf16StepBytes = 128;
inline constexpr size_t kInt8Scale = 64;       // offset in a step
inline constexpr size_t kInt8Correction = 72;  // offset in a step
inline constexpr size_t kInt8StepBytes = 80;
static_assert(kInt8Correction == kInt8Scale + 2 * sizeof(float) &&
              kInt8StepBytes == kInt8Correction + 2 * sizeof(int32_t));
inline constexpr int kPairRatio = 254;         // a rounding error is at most half a code of 127
inline constexpr float kLeastTop = 0x1p-110f;  // 32767 / it is finite
inline constexpr size_t kInt16Scale = 128;     // offset in a step
inline constexpr size_t kInt16StepBytes = 136;
static_assert(kInt16Scale == 64 * sizeof(int16_t) && kInt16StepBytes == kInt16Scale + 2 * sizeof(float));

static constexpr size_t StepBytes(ActivationFormat x_format) {
  switch (x_format) {
    case ActivationFormat::kFloat:
    case ActivationFormat::kFp32:
    case ActivationFormat::kFp32Fp8:
      return 256;
    case ActivationFormat::kBf16:
    case ActivationFormat::kBf16Quads:
    case ActivationFormat::kTiles:
    case ActivationFormat::kTileQuads:
      return kBf16StepBytes;
    case ActivationFormat::kInt8:
      return kInt8StepBytes;
    case ActivationFormat::kInt8Pair:
      return 2 * kInt8StepBytes;
    case ActivationFormat::kInt16:
      return kInt16StepBytes;
  }
  return 0;
}
/// Returns the bytes of a row of `cols` inputs.
static constexpr size_t RowBytes(ActivationFormat x_format, int cols) {
  return static_cast<size_t>((cols + 63) / 64) * StepBytes(x_format);
}

}  // namespace quantised
}  // namespace numoe
