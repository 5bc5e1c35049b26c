// The layout of a matrix on the device, defined only here and shared by packing on the host, the repack
// kernel and all kernels that multiply.
//
// Weights are operand A of mma.m16n8k16 and tokens are columns, so that one layout is used for one token and
// for thousands. In a tile of 16 outputs x 16 inputs, lane l = 4 g + t of a warp holds four pairs of weights,
// each for one output and two inputs. As (output, first of the two inputs) they are a0 = (g, 2t), a1 = (g +
// 8, 2t), a2 = (g, 2t + 8) and a3 = (g + 8, 2t + 8). A lane loads them with accesses of 8 or 16 bytes that
// are contiguous over a warp's 32 lanes. A matrix is a sequence of panels of 32 outputs (two tiles m); a
// panel is a contiguous sequence of steps of 64 inputs (four tiles s). The workers' layout
// (common/kernels/layout.h) has the same panels and steps with the same number of bytes.
//
// A step of bf16 has 4096 bytes: [m 2][s 4][lane 32][a0 a1 a2 a3, each 2 x bf16].
//
// A step of fp8 has 2048 bytes: [m 2][s / 2 2][lane 32][s % 2 2][w 2], each with the four codes a(2w+1) lo,
// a(2w) lo, a(2w+1) hi, a(2w) hi.
//
// A step of int4 has 1152 bytes: [m 2][lane 32][s 4], each a word whose nibble j is a_j lo and whose nibble
// 4 + j is a_j hi; then the scales, [g 8][m 2][output g, g + 8][group of 32 inputs 2] bf16.
//
// After the last panel, fp8 has its scales, fp32 [panel][step][m]. A weight is scale * code (int4: scale *
// (nibble - 8)). The order of bytes within a word is the one that unpacks with the fewest instructions: a_j
// of an int4 word needs one shift and one AND-OR, an fp8 word gives two pairs by masks. Outputs beyond `rows`
// and inputs beyond `cols` are zero. A gated pair is one matrix whose panels hold 16 outputs of gate (m = 0)
// and the same 16 of up (m = 1), so a lane has both halves of a SwiGLU in the same registers.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define NUMOE_HOST_DEVICE __host__ __device__
#else
#define NUMOE_HOST_DEVICE
#endif

namespace numoe::execution::cuda {

/// The format of a matrix on the device: the published one if there is a decoder for it, BF16 otherwise.
enum class DeviceFormat : uint8_t { kBf16, kFp8, kInt4 };
inline constexpr int kDeviceFormats = 3;

inline constexpr int kPanelOutputs = 32;
inline constexpr int kTileOutputs = 16;  // outputs of one mma, and of each matrix in a gated panel
inline constexpr int kStepInputs = 64;
inline constexpr int kInt4GroupInputs = 32;
inline constexpr int kInt4ScaleOffset = 1024;  // bytes, in a step

NUMOE_HOST_DEVICE constexpr int StepCount(int cols) { return (cols + kStepInputs - 1) / kStepInputs; }
/// Returns the panels of a matrix with `rows` outputs; for a gated pair `rows` are the outputs of gate.
NUMOE_HOST_DEVICE constexpr int PanelCount(int rows, bool gated) {
  const int outputs = gated ? kTileOutputs : kPanelOutputs;
  return (rows + outputs - 1) / outputs;
}

NUMOE_HOST_DEVICE constexpr int StepBytes(DeviceFormat format) {
  return format == DeviceFormat::kBf16 ? 4096 : format == DeviceFormat::kFp8 ? 2048 : 1152;
}

/// Returns the offset in a step of pair a_j of tile (m, s) and lane; for int4, of the word with all four
/// pairs.
NUMOE_HOST_DEVICE constexpr int Bf16Offset(int m, int s, int lane, int j) {
  return m * 2048 + s * 512 + lane * 16 + j * 4;
}
NUMOE_HOST_DEVICE constexpr int Fp8Offset(int m, int s, int lane, int j) {
  return m * 1024 + s / 2 * 512 + lane * 16 + s % 2 * 8 + j * 2;
}
NUMOE_HOST_DEVICE constexpr int Int4Offset(int m, int s, int lane) {
  return m * 512 + s / 2 * 256 + lane * 8 + s % 2 * 4;
}
/// Returns the offset in a step of the int4 scale for output `row` of tile m and group `group`.
NUMOE_HOST_DEVICE constexpr int Int4ScaleByte(int m, int row, int group) {
  return kInt4ScaleOffset + row % 8 * 16 + m * 8 + row / 8 * 4 + group * 2;
}

/// Returns the bytes of all steps, which are also the offset of fp8's scales.
NUMOE_HOST_DEVICE constexpr size_t CodeBytes(DeviceFormat format, int panels, int cols) {
  return static_cast<size_t>(panels) * static_cast<size_t>(StepCount(cols)) *
         static_cast<size_t>(StepBytes(format));
}
/// Returns the bytes of the whole matrix, a multiple of 128, because matrices and experts are stored
/// contiguously.
NUMOE_HOST_DEVICE constexpr size_t DeviceBytes(DeviceFormat format, int rows, int cols, bool gated) {
  const int panels = PanelCount(rows, gated);
  const size_t scales =
      format == DeviceFormat::kFp8
          ? static_cast<size_t>(panels) * static_cast<size_t>(StepCount(cols)) * 2 * sizeof(float)
          : 0;
  return (CodeBytes(format, panels, cols) + scales + 127) / 128 * 128;
}

/// A packed matrix. Owns nothing; `data` is device memory, 128-byte aligned.
struct DeviceMatrix {
  DeviceFormat format = DeviceFormat::kBf16;
  int rows = 0;  // outputs; for a gated pair those of gate, which equal those of up
  int cols = 0;
  bool gated = false;
  const std::byte* data = nullptr;
};

static_assert(Bf16Offset(1, 3, 31, 3) + 4 == StepBytes(DeviceFormat::kBf16));
static_assert(Fp8Offset(1, 3, 31, 3) + 2 == StepBytes(DeviceFormat::kFp8));
static_assert(Int4Offset(1, 3, 31) + 4 == kInt4ScaleOffset);
static_assert(Int4ScaleByte(1, 15, 1) + 2 == StepBytes(DeviceFormat::kInt4));

}  // namespace numoe::execution::cuda
