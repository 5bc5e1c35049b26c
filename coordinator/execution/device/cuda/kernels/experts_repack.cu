#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/repack_tiles.cuh"

namespace numoe::execution::cuda {
namespace {

constexpr int kLineWords = 16;  // outputs per line of the workers' layout, with a word of 4 bytes each
constexpr int kFp8TailAlignment = 64;

// Returns a word of a step of the workers' layout in shared memory: [half of 16 outputs][line][output].
__device__ __forceinline__ uint32_t Word(const uint32_t* step, int lines, int half, int line, int output) {
  return step[(half * lines + line) * kLineWords + output];
}

// The place of pair a_j of k16 step s: output g or g + 8, inputs c and c + 1.
struct PairPlace {
  int output, input;
};
__device__ __forceinline__ PairPlace PlaceOf(int lane, int s, int j) {
  return {lane / 4 + j % 2 * 8, s * 16 + lane % 4 * 2 + j / 2 * 8};
}

struct Int4Step {
  static constexpr DeviceFormat kFormat = DeviceFormat::kInt4;
  static constexpr int kLines = 8;  // a byte has input k in its low nibble and k + 32 in its high nibble
  // Writes a lane's words of tile m; eight of the lanes also write scales.
  static __device__ __forceinline__ void Write(const uint32_t* step, int half, int m, int lane,
                                               unsigned char* out) {
    uint32_t words[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      words[s] = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const PairPlace place = PlaceOf(lane, s % 2, j);
        const uint32_t four = Word(step, kLines, half, place.input / 4, place.output);
        const uint32_t two = four >> (place.input % 4 * 8 + s / 2 * 4);
        words[s] |= (two & 15u) << (4 * j) | (two >> 8 & 15u) << (16 + 4 * j);
      }
    }
    *reinterpret_cast<uint2*>(out + Int4Offset(m, 0, lane)) = make_uint2(words[0], words[1]);
    *reinterpret_cast<uint2*>(out + Int4Offset(m, 2, lane)) = make_uint2(words[2], words[3]);
    if (lane >= 8) return;
    const auto* scales = reinterpret_cast<const uint16_t*>(step) + kInt4ScaleOffset / 2 + half * kTileOutputs;
    uint32_t pairs[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int output = lane + i * 8;
      pairs[i] = scales[output] | static_cast<uint32_t>(scales[kPanelOutputs + output]) << 16;
    }
    *reinterpret_cast<uint2*>(out + Int4ScaleByte(m, lane, 0)) = make_uint2(pairs[0], pairs[1]);
  }
};

struct Fp8Step {
  static constexpr DeviceFormat kFormat = DeviceFormat::kFp8;
  static constexpr int kLines = 16;
  static __device__ __forceinline__ uint32_t Pair(const uint32_t* step, int half, int lane, int s, int j) {
    const PairPlace place = PlaceOf(lane, s, j);
    return Word(step, kLines, half, place.input / 4, place.output) >> (place.input % 4 * 8) & 0xffffu;
  }
  static __device__ __forceinline__ void Write(const uint32_t* step, int half, int m, int lane,
                                               unsigned char* out) {
#pragma unroll
    for (int s = 0; s < 4; s += 2) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = Pair(step, half, lane, s + i / 2, i % 2 * 2) |
                   Pair(step, half, lane, s + i / 2, i % 2 * 2 + 1) << 16;
      *reinterpret_cast<uint4*>(out + Fp8Offset(m, s, lane, 0)) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
};

struct Bf16Step {
  static constexpr DeviceFormat kFormat = DeviceFormat::kBf16;
  static constexpr int kLines = 32;
  static __device__ __forceinline__ void Write(const uint32_t* step, int half, int m, int lane,
                                               unsigned char* out) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const PairPlace place = PlaceOf(lane, s, j);
        words[j] = Word(step, kLines, half, place.input / 2, place.output);
      }
      *reinterpret_cast<uint4*>(out + Bf16Offset(m, s, lane, 0)) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
};

template <class Step>
__global__ void __launch_bounds__(kRepackWarps * 32) Repack(RepackArgs args) {
  constexpr int kBytes = StepBytes(Step::kFormat);
  NUMOE_SHARED(uint4, steps, [kRepackWarps][kBytes / 16]);
  const RepackPlace place = PlaceOfWarp();
  const int lane = place.lane, step = place.step, source_steps = StepCount(args.cols);
  if (step >= source_steps) return;
  constexpr bool kTail = Step::kFormat == DeviceFormat::kFp8;
  const int tail =
      kTail ? (source_steps * 4 + kFp8TailAlignment - 1) / kFp8TailAlignment * kFp8TailAlignment : 0;
  const auto* source = reinterpret_cast<const unsigned char*>(args.source) + blockIdx.z * args.source_stride +
                       static_cast<size_t>(place.panel) * (static_cast<size_t>(source_steps) * kBytes + tail);
  const auto* from = reinterpret_cast<const uint4*>(source + static_cast<size_t>(step) * kBytes);
  uint4* const lines = steps[place.warp];
  for (int i = lane; i < kBytes / 16; i += 32) lines[i] = LoadStreaming(from + i);
  __syncwarp();
  ForTargetTiles(args, place, [&](int half, int m, int row, size_t at, unsigned char* out) {
    Step::Write(reinterpret_cast<const uint32_t*>(lines), half, m, lane, out + at * kBytes);
    if (kTail && lane == 0) {
      const DeviceMatrix& target = args.target;
      const int panels = PanelCount(target.rows, target.gated);
      const float scale =
          reinterpret_cast<const float*>(source + static_cast<size_t>(source_steps) * kBytes)[step];
      reinterpret_cast<float*>(out + CodeBytes(Step::kFormat, panels, target.cols))[at * 2 + m] =
          row < target.rows ? scale : 0.0f;
    }
  });
}

}  // namespace

void LaunchRepack(const RepackArgs& args, Stream stream) {
  const LaunchShape shape = RepackShape(args);
  switch (args.target.format) {
    case DeviceFormat::kBf16:
      if (args.source_format == WeightFormat::kBf16) {
        NUMOE_LAUNCH(Repack<Bf16Step>, shape, stream, args);
        return;
      }
      NUMOE_CHECK(LaunchWiden(args, stream)) << "format " << static_cast<int>(args.source_format);
      return;
    case DeviceFormat::kFp8:
      NUMOE_LAUNCH(Repack<Fp8Step>, shape, stream, args);
      return;
    case DeviceFormat::kInt4:
      NUMOE_LAUNCH(Repack<Int4Step>, shape, stream, args);
      return;
  }
}

}  // namespace numoe::execution::cuda
