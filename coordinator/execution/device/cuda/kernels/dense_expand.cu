#include "coordinator/execution/device/cuda/kernels/dense_expand.h"
#include "coordinator/execution/device/cuda/words.h"
// clang-format off: the vocabulary first
#include "coordinator/execution/device/cuda/kernels/dense_decoders.inc"
// clang-format on

namespace numoe::execution::cuda {
namespace {

constexpr int kWarps = 4;  // each converts one step
// The length of a row of a step in shared memory, in 32-bit words: with 36 % 32 = 4, the eight rows of a
// fragment are in different banks.
constexpr int kRowWords = kStepInputs / 2 + 4;

template <class Decoder>
__device__ __forceinline__ void DecodeStep(const unsigned char* step, const unsigned char* scales, int lane,
                                           uint32_t (&rows)[kPanelOutputs][kRowWords]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    typename Decoder::Raw raw;
    Decoder::Load(step, scales, lane, half, raw);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        uint32_t a[4];
        Decoder::Fragment(raw, m, s, a);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float2 pair = UnpackBf16(a[j]);
          const float scale = Decoder::RowScale(raw, m, j % 2);
          rows[m * kTileOutputs + lane / 4 + j % 2 * 8][half * 16 + s * 8 + lane % 4 + j / 2 * 4] =
              PackBf16(pair.x * scale, pair.y * scale);
        }
      }
    }
  }
}

// Writes the rows of a panel to their places in the matrix, eight columns at a time.
__device__ __forceinline__ void WriteStep(const ExpandArgs& args, int panel, int step, int lane,
                                          const uint32_t (&rows)[kPanelOutputs][kRowWords]) {
  const DeviceMatrix& matrix = args.matrix;
  for (int i = lane; i < kPanelOutputs * 8; i += 32) {
    const int row = i / 8, col = step * kStepInputs + i % 8 * 8;
    const int outputs = matrix.gated ? kTileOutputs : kPanelOutputs;
    const int output = panel * outputs + row % outputs;
    if (output >= matrix.rows || col >= matrix.cols) continue;
    const int64_t at = (output + static_cast<int64_t>(row / outputs) * matrix.rows) * args.out_stride + col;
    const uint4 eight = *reinterpret_cast<const uint4*>(&rows[row][i % 8 * 4]);
    if (col + 8 <= matrix.cols) {
      *reinterpret_cast<uint4*>(args.out + at) = eight;
      continue;
    }
    const uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
    for (int c = 0; col + c < matrix.cols; ++c)
      args.out[at + c] = {static_cast<uint16_t>(pairs[c / 2] >> (c % 2 * 16))};
  }
}

template <class Decoder>
__global__ void __launch_bounds__(kWarps * 32) Expand(ExpandArgs args) {
  NUMOE_SHARED(uint32_t, rows, [kWarps][kPanelOutputs][kRowWords]);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int steps = StepCount(args.matrix.cols), panel = static_cast<int>(blockIdx.y);
  const int step = static_cast<int>(blockIdx.x) * kWarps + warp;
  if (step >= steps) return;
  const auto* data = reinterpret_cast<const unsigned char*>(args.matrix.data);
  const size_t at = static_cast<size_t>(panel) * static_cast<size_t>(steps) + static_cast<size_t>(step);
  const size_t codes =
      CodeBytes(Decoder::kFormat, PanelCount(args.matrix.rows, args.matrix.gated), args.matrix.cols);
  DecodeStep<Decoder>(data + at * StepBytes(Decoder::kFormat), data + codes + at * Decoder::kScaleBytes, lane,
                      rows[warp]);
  __syncwarp();
  WriteStep(args, panel, step, lane, rows[warp]);
}

}  // namespace

void LaunchExpand(const ExpandArgs& args, Stream stream) {
  const DeviceMatrix& matrix = args.matrix;
  const LaunchShape shape{
      dim3((StepCount(matrix.cols) + kWarps - 1) / kWarps, PanelCount(matrix.rows, matrix.gated)),
      dim3(kWarps * 32), 0};
  switch (matrix.format) {
    case DeviceFormat::kBf16:
      NUMOE_LAUNCH(Expand<Bf16Decoder>, shape, stream, args);
      return;
    case DeviceFormat::kFp8:
      NUMOE_LAUNCH(Expand<Fp8Decoder>, shape, stream, args);
      return;
    case DeviceFormat::kInt4:
      NUMOE_LAUNCH(Expand<Int4Decoder>, shape, stream, args);
      return;
  }
}

}  // namespace numoe::execution::cuda
