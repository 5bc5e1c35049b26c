// Where every weight of a packed matrix is. Packing and all kernels use this one definition.
//
// A matrix is a row of panels of 32 outputs. A panel is a contiguous stream of steps of 64 inputs, so that it
// is read sequentially exactly once. Within a step, inputs are in words of 4 bytes for each output, with 16
// outputs in a line of 64 bytes (the order that VNNI and AMX dot products need):
//   bf16      [half 2][k pair 32][output 16][2 x bf16]                                   4096 bytes
//   fp8       [half 2][k quad 16][output 16][4 x e4m3]                                   2048 bytes
//   int8      [half 2][k quad 16][output 16][4 x int8]  then [group 2][output 32] fp32   2304 bytes
//   4 bits    [half 2][k quad  8][output 16][4 x (low: k, high: k + 32)]
//             then [group 2][output 32] scales, and the same number of minima if a format has them:
//             int4s           bf16                  1152 bytes (0.5625 per weight)
//             q4_0, iq4_nl    fp16                  1152 bytes
//             q4_1            fp16, minima fp16     1280 bytes
//             q4_k            u8, minima u8         1152 bytes
//             iq4_xs          int8                  1088 bytes
//             mxfp4           u8                    1088 bytes; e for a scale of 2^(e - 127), 0 for 0
//   6 bits    the lower four as for 4 bits, then [half 2][k quad 4][output 16][4 x (two bits of k, k + 16,
//   (q6_k)    k + 32, k + 48)], then [group of 16 inputs 4][output 32] int8 scales           1664 bytes
// After a panel's last step comes its tail. fp8 has one fp32 scale for each step, padded to 64 bytes (a
// 128-wide block has two steps). q4_k, iq4_xs and q6_k have for every four steps [output 32] fp16 d, by which
// scales are multiplied; q4_k then has the same number of dmin for minima. w = scale * CodeValues[code] -
// minimum, and for q6_k scale * (code - 32). q4_1's minima are stored negated, as GGUF has them. Inputs
// beyond `cols` and outputs beyond `rows` are zero weights. Functions are static, because each kernel source
// compiles its own copy (kernel_types.h says why).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/kernel_types.h"

namespace numoe::layout {

inline constexpr int kStepCols = 64;
inline constexpr int kGroup = 32;      // inputs that share an int4 or int8 scale
inline constexpr int kHalfGroup = 16;  // inputs that share a scale of q6_k
inline constexpr int kHalfRows = 16;   // outputs of one 64-byte line
inline constexpr size_t kLine = 64;    // bytes
inline constexpr size_t kInt4Codes = 1024;
inline constexpr size_t kInt8Codes = 2048;
inline constexpr size_t kQ6KCodes = 1536;  // 1024 as int4's, 512 of the upper two bits
inline constexpr int kQ6KOffset = 32;      // the value is the code minus this
inline constexpr int kBlockSteps = 4;      // steps that share d and dmin

static constexpr int Steps(int cols) { return (cols + kStepCols - 1) / kStepCols; }
static constexpr int Panels(int rows) { return (rows + kPanelRows - 1) / kPanelRows; }

// --- GGUF's formats: codes of 4 bits, and q6_k ---

/// The format has a table of values for its codes, because no arithmetic gives them.
static constexpr bool HasTable(WeightFormat format) {
  return format == WeightFormat::kIq4Nl || format == WeightFormat::kIq4Xs || format == WeightFormat::kMxfp4;
}
static constexpr bool HasMinima(WeightFormat format) {
  return format == WeightFormat::kQ4K || format == WeightFormat::kQ4_1;
}

static constexpr int8_t kOffsetValues[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
static constexpr int8_t kPlainValues[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
// ggml-common.h: kvalues_iq4nl, kvalues_mxfp4 (E2M1's values doubled).
static constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
static constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// Returns the values of the 16 codes, without a scale.
static constexpr const int8_t* CodeValues(WeightFormat format) {
  if (format == WeightFormat::kMxfp4) return kMxfp4Values;
  if (HasTable(format)) return kIq4Values;
  return HasMinima(format) ? kPlainValues : kOffsetValues;
}

/// Returns the number of fp16 factors for an output in the tail of every four steps: d, or d and dmin.
static constexpr size_t BlockFactors(WeightFormat format) {
  if (format == WeightFormat::kQ4K) return 2;
  return format == WeightFormat::kIq4Xs || format == WeightFormat::kQ6K ? 1 : 0;
}

/// Returns the bytes of one scale, or minimum, in a step.
static constexpr size_t ScaleBytes(WeightFormat format) {
  return BlockFactors(format) > 0 || format == WeightFormat::kMxfp4 ? 1 : 2;
}

/// Returns where in a step the scales of group `g` begin, [output 32]. Those of groups 2 and 3 are the minima
/// of 0 and 1, except for q6_k, which has four groups.
static constexpr size_t ScaleOffset(WeightFormat format, int g) {
  return (format == WeightFormat::kQ6K ? kQ6KCodes : kInt4Codes) +
         static_cast<size_t>(g) * kPanelRows * ScaleBytes(format);
}

// --- all formats ---

static constexpr size_t StepBytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return 4096;
    case WeightFormat::kFp8:
      return 2048;
    case WeightFormat::kInt8:
      return kInt8Codes + 2 * kPanelRows * sizeof(float);
    default:
      return ScaleOffset(format, HasMinima(format) || format == WeightFormat::kQ6K ? 4 : 2);
  }
}

/// Returns where in a panel's tail the data of step `step` begins.
static constexpr size_t TailOffset(WeightFormat format, int step) {
  if (format == WeightFormat::kFp8) return static_cast<size_t>(step) * sizeof(float);
  return static_cast<size_t>(step / kBlockSteps) * BlockFactors(format) * kPanelRows * sizeof(uint16_t);
}

static constexpr size_t PanelBytes(WeightFormat format, int cols) {
  const int steps = Steps(cols);
  const int padded = BlockFactors(format) > 0 ? steps + kBlockSteps - 1 : steps;
  return static_cast<size_t>(steps) * StepBytes(format) +
         (TailOffset(format, padded) + kLine - 1) / kLine * kLine;
}

/// Returns the byte of output `row` (in its panel) and input `k` (in its step) for formats with one byte for
/// each weight.
static constexpr size_t QuadByte(int row, int k) {
  return static_cast<size_t>((row / kHalfRows * 16 + k / 4) * 64 + row % kHalfRows * 4 + k % 4);
}
/// Returns the first of the two bytes of a bf16 weight.
static constexpr size_t PairByte(int row, int k) {
  return static_cast<size_t>((row / kHalfRows * 32 + k / 2) * 64 + row % kHalfRows * 4 + k % 2 * 2);
}
/// Returns the byte of an int4 weight: in the low nibble for k < 32, in the high nibble above.
static constexpr size_t NibbleByte(int row, int k) {
  return static_cast<size_t>((row / kHalfRows * 8 + k % 32 / 4) * 64 + row % kHalfRows * 4 + k % 4);
}
/// Returns the byte with the upper two bits of a q6_k weight, which begin at bit 2 * (k / 16).
static constexpr size_t UpperByte(int row, int k) {
  return kInt4Codes +
         static_cast<size_t>((row / kHalfRows * 4 + k % 16 / 4) * 64 + row % kHalfRows * 4 + k % 4);
}

// A step consists of whole cache lines, a panel of two lines of outputs, and a step of two groups, so loads
// and scales never straddle two lines.
static_assert(kPanelRows == 2 * kHalfRows && kStepCols == 2 * kGroup);
static_assert(StepBytes(WeightFormat::kBf16) % kLine == 0 && StepBytes(WeightFormat::kFp8) % kLine == 0);
static_assert(StepBytes(WeightFormat::kInt8) % kLine == 0 && StepBytes(WeightFormat::kInt4) % kLine == 0);
static_assert(PairByte(kPanelRows - 1, kStepCols - 1) + 2 == StepBytes(WeightFormat::kBf16));
static_assert(QuadByte(kPanelRows - 1, kStepCols - 1) + 1 == kInt8Codes);
static_assert(NibbleByte(kPanelRows - 1, kStepCols - 1) + 1 == kInt4Codes);
static_assert(UpperByte(kPanelRows - 1, kStepCols - 1) + 1 == kQ6KCodes);
static_assert(StepBytes(WeightFormat::kRawInt4) == StepBytes(WeightFormat::kInt4));
static_assert(StepBytes(WeightFormat::kQ4K) == 1152 && StepBytes(WeightFormat::kQ4_0) == 1152);
static_assert(StepBytes(WeightFormat::kQ4_1) == 1280 && StepBytes(WeightFormat::kIq4Nl) == 1152);
static_assert(StepBytes(WeightFormat::kIq4Xs) == 1088 && StepBytes(WeightFormat::kMxfp4) == 1088);
static_assert(StepBytes(WeightFormat::kQ6K) == 1664);
static_assert(kPanelRows * sizeof(uint16_t) == kLine);
static_assert(PanelBytes(WeightFormat::kIq4Xs, 257) == 5 * 1088 + 2 * 64);
static_assert(PanelBytes(WeightFormat::kQ4K, 257) == 5 * 1152 + 2 * 128);

}  // namespace numoe::layout
