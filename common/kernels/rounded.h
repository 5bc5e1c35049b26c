// Rounded activations: the forms that fast kernels take instead of fp32, a row at a time.
//
// A row is a sequence of steps of 64 inputs, like the weights it meets (layout.h), and each step stands
// alone, so that a part of a row can be rounded where it is computed. Inputs beyond `cols` are zero.
//   kFp32       64 x fp32, in order, nothing lost: for instruction sets without products of BF16
//   kFp32Fp8    the same times 2^60: products with fp8 codes, which are cheapest to read as fp32 times
//               2^-120, then stay out of the subnormals
//   kBf16       64 x bf16, in order
//   kBf16Quads  64 x bf16, each four inputs in the order 0 2 1 3: what a shift of four packed nibbles yields
//   kInt8       64 x int8, then fp32 scale[2] of the groups of 32 (largest magnitude / 127), then
//               int32 correction[2] = -8 * sum of the group's codes, for weights stored with an offset of 8.
//               AVX2 sums in lanes of 16 bits: in place of each correction it has two int16, one for the
//               first two codes of each four and one for the other two
//   kInt8Pair   two kInt8 steps: the values, and what rounding them left, so 15 bits together. One token's
//               products are the sum of both. This is more exact than BF16, for instruction sets and formats
//               that have INT8 only
//   kInt16      64 x int16 (largest magnitude of 32 / 32767), each four inputs in the order 0 2 1 3, then
//               fp32 scale[2]: where 16-bit products cost no more than those of 8 bits
//   kTiles, kTileQuads   rows as kBf16 and kBf16Quads, to be multiplied by matrix units
// In the INT forms a group with a value that is not finite has NaN for its scale, so that its token's outputs
// are NaN and nothing hides it; one whose largest magnitude is below kLeastTop counts as zero.
// Like all that kernel sources include, it holds no library code.
#pragma once

#include "common/kernels/kernel_types.h"

namespace numoe {

enum class ActivationForm : uint8_t {
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
inline constexpr size_t kActivationForms = static_cast<size_t>(ActivationForm::kInt16) + 1;

/// y as in MatmulArgs; x are `tokens` rounded rows of weight.cols inputs, x_stride bytes apart.
struct RoundedMatmulArgs {
  PackedMatrix weight;
  int row_begin = 0;
  int row_end = 0;
  ActivationForm form = ActivationForm::kFloat;
  const std::byte* x = nullptr;
  size_t x_stride = 0;  // bytes
  int tokens = 0;
  float* y = nullptr;
  int64_t y_stride = 0;  // floats
  const std::byte* next =
      nullptr;  // packed weights that the caller reads after these, to be fetched meanwhile; or null
};

namespace rounded {

inline constexpr float kFp32Fp8Factor = 0x1p60f;
inline constexpr size_t kBf16StepBytes = 128;
inline constexpr size_t kInt8Scale = 64;       // offset in a step
inline constexpr size_t kInt8Correction = 72;  // offset in a step
inline constexpr size_t kInt8StepBytes = 80;
static_assert(kInt8Correction == kInt8Scale + 2 * sizeof(float) &&
              kInt8StepBytes == kInt8Correction + 2 * sizeof(int32_t));
inline constexpr int kPairRatio = 254;         // what rounding leaves is at most half a code of 127
inline constexpr float kLeastTop = 0x1p-110f;  // 32767 / it is finite
inline constexpr size_t kInt16Scale = 128;     // offset in a step
inline constexpr size_t kInt16StepBytes = 136;
static_assert(kInt16Scale == 64 * sizeof(int16_t) && kInt16StepBytes == kInt16Scale + 2 * sizeof(float));

static constexpr size_t StepBytes(ActivationForm form) {
  switch (form) {
    case ActivationForm::kFloat:
    case ActivationForm::kFp32:
    case ActivationForm::kFp32Fp8:
      return 256;
    case ActivationForm::kBf16:
    case ActivationForm::kBf16Quads:
    case ActivationForm::kTiles:
    case ActivationForm::kTileQuads:
      return kBf16StepBytes;
    case ActivationForm::kInt8:
      return kInt8StepBytes;
    case ActivationForm::kInt8Pair:
      return 2 * kInt8StepBytes;
    case ActivationForm::kInt16:
      return kInt16StepBytes;
  }
  return 0;
}
/// Bytes of a row of `cols` inputs.
static constexpr size_t RowBytes(ActivationForm form, int cols) {
  return static_cast<size_t>((cols + 63) / 64) * StepBytes(form);
}

}  // namespace rounded
}  // namespace numoe
