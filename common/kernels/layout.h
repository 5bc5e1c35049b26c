// Where every weight of a packed matrix lies: the one place that knows, shared by packing and all kernels.
//
// A matrix is a row of panels of 32 outputs; a panel is a contiguous stream of steps of 64 inputs, so that
// one output panel is read front to back exactly once. Inside a step, inputs come in words of 4 bytes per
// output, 16 outputs to a 64-byte line (the order that VNNI and AMX dot products want):
//   bf16      [half 2][k pair 32][output 16][2 x bf16]                                   4096 bytes
//   fp8       [half 2][k quad 16][output 16][4 x e4m3]                                   2048 bytes, scales
//   below int8      [half 2][k quad 16][output 16][4 x int8]  then [group 2][output 32] fp32   2304 bytes
//   int4s     [half 2][k quad  8][output 16][4 x (low: k, high: k + 32)]
//             then [group 2][output 32] bf16                                             1152 bytes (0.5625
//             per weight)
//   q4_k      codes as int4's, unsigned, then [group 2][output 32] u8 scales, then as many minima
//                                                                                        1152 bytes
// Behind a panel's last step, its tail: fp8 has one fp32 scale per step, padded to 64 bytes (a 128-wide block
// holds two steps); q4_k has for every four steps [output 32] fp16 that scales are multiples of, then as many
// for minima: w = code * scale * d - minimum * dmin. Inputs beyond `cols` and outputs beyond `rows` are zero
// weights. Functions are static: kernel sources each compile their own copy (kernel_types.h says why).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/kernel_types.h"

namespace numoe::layout {

inline constexpr int kStepCols = 64;
inline constexpr int kGroup = 32;     // inputs that share an int4 or int8 scale
inline constexpr int kHalfRows = 16;  // outputs of one 64-byte line
inline constexpr size_t kLine = 64;   // bytes
inline constexpr size_t kInt4Codes = 1024;
inline constexpr size_t kInt8Codes = 2048;
inline constexpr size_t kQ4KScales = kInt4Codes;           // [group][output], one byte each
inline constexpr size_t kQ4KMinima = kQ4KScales + 2 * 32;  // [group][output], one byte each
inline constexpr int kQ4KBlockSteps = 4;                   // that share d and dmin
inline constexpr size_t kQ4KBlockTail = 2 * 32 * sizeof(uint16_t);

static constexpr int Steps(int cols) { return (cols + kStepCols - 1) / kStepCols; }
static constexpr int Panels(int rows) { return (rows + kPanelRows - 1) / kPanelRows; }

static constexpr size_t StepBytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return 4096;
    case WeightFormat::kFp8:
      return 2048;
    case WeightFormat::kInt8:
      return kInt8Codes + 2 * kPanelRows * sizeof(float);
    case WeightFormat::kRawInt4:
    case WeightFormat::kInt4:
      return kInt4Codes + 2 * kPanelRows * sizeof(uint16_t);
    case WeightFormat::kQ4K:
      return kInt4Codes + 2 * 2 * kPanelRows;
  }
  return 0;
}

/// Where in a panel's tail lies what step `step` needs.
static constexpr size_t TailOffset(WeightFormat format, int step) {
  if (format == WeightFormat::kFp8) return static_cast<size_t>(step) * sizeof(float);
  if (format == WeightFormat::kQ4K) return static_cast<size_t>(step / kQ4KBlockSteps) * kQ4KBlockTail;
  return 0;
}

static constexpr size_t PanelBytes(WeightFormat format, int cols) {
  const int steps = Steps(cols);
  const int padded = format == WeightFormat::kQ4K ? steps + kQ4KBlockSteps - 1 : steps;
  return static_cast<size_t>(steps) * StepBytes(format) +
         (TailOffset(format, padded) + kLine - 1) / kLine * kLine;
}

/// Byte of output `row` (in its panel) and input `k` (in its step) for formats of one byte per weight.
static constexpr size_t QuadByte(int row, int k) {
  return static_cast<size_t>((row / kHalfRows * 16 + k / 4) * 64 + row % kHalfRows * 4 + k % 4);
}
/// Byte of the first of a bf16 weight's two bytes.
static constexpr size_t PairByte(int row, int k) {
  return static_cast<size_t>((row / kHalfRows * 32 + k / 2) * 64 + row % kHalfRows * 4 + k % 2 * 2);
}
/// Byte that holds an int4 weight: low nibble for k < 32, high nibble above.
static constexpr size_t NibbleByte(int row, int k) {
  return static_cast<size_t>((row / kHalfRows * 8 + k % 32 / 4) * 64 + row % kHalfRows * 4 + k % 4);
}

// A step is whole cache lines, a panel two lines of outputs, a step two groups: loads and scales never
// straddle.
static_assert(kPanelRows == 2 * kHalfRows && kStepCols == 2 * kGroup);
static_assert(StepBytes(WeightFormat::kBf16) % kLine == 0 && StepBytes(WeightFormat::kFp8) % kLine == 0);
static_assert(StepBytes(WeightFormat::kInt8) % kLine == 0 && StepBytes(WeightFormat::kInt4) % kLine == 0);
static_assert(PairByte(kPanelRows - 1, kStepCols - 1) + 2 == StepBytes(WeightFormat::kBf16));
static_assert(QuadByte(kPanelRows - 1, kStepCols - 1) + 1 == kInt8Codes);
static_assert(NibbleByte(kPanelRows - 1, kStepCols - 1) + 1 == kInt4Codes);
static_assert(StepBytes(WeightFormat::kRawInt4) == StepBytes(WeightFormat::kInt4));
static_assert(kQ4KMinima + 2 * kPanelRows == StepBytes(WeightFormat::kQ4K));
static_assert(StepBytes(WeightFormat::kQ4K) % kLine == 0 && kQ4KBlockTail % kLine == 0);
static_assert(PanelBytes(WeightFormat::kQ4K, 257) == 5 * 1152 + 2 * 128);

}  // namespace numoe::layout
