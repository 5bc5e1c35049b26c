#include "common/kernels/layout.h"
#include "coordinator/execution/device/cuda/kernels/repack_tiles.cuh"

namespace numoe::execution::cuda {
namespace {

constexpr int kFactorBytes = kPanelOutputs * 2;                   // d (or dmin) for the outputs of a panel
constexpr int kInt8Codes = static_cast<int>(layout::kInt8Codes);  // bytes of codes per step
constexpr int kInt4Codes = static_cast<int>(layout::kInt4Codes);

// Returns eight of a format's code values, one per byte.
constexpr uint64_t EightValues(WeightFormat format, int first) {
  uint64_t bytes = 0;
  for (int i = 7; i >= 0; --i)
    bytes = bytes << 8 | static_cast<uint8_t>(layout::CodeValues(format)[first + i]);
  return bytes;
}

// The layout's sizes as constants, because its functions can be called on the host only.
template <WeightFormat kFormat>
constexpr uint64_t kLowValues = EightValues(kFormat, 0);
template <WeightFormat kFormat>
constexpr uint64_t kHighValues = EightValues(kFormat, 8);
template <WeightFormat kFormat>
constexpr int kScaleBytes = static_cast<int>(layout::ScaleBytes(kFormat));
template <WeightFormat kFormat>
constexpr int kFirstScale = static_cast<int>(layout::ScaleOffset(kFormat, 0));
template <WeightFormat kFormat>
constexpr bool kHasMinima = layout::HasMinima(kFormat);

// Decodes one of the workers' formats: pairs of weights of a step (common/kernels/layout.h) in fp32, with the
// same values as UnpackWeight (common/kernels/kernels.h).
template <WeightFormat kSource>
struct Codes {
  static constexpr WeightFormat kFormat = kSource;
  static constexpr int kStepBytes = static_cast<int>(layout::StepBytes(kFormat));
  static constexpr int kFactors = static_cast<int>(layout::BlockFactors(kFormat));

  static __device__ __forceinline__ uint32_t Word(const unsigned char* step, int at) {
    return *reinterpret_cast<const uint32_t*>(step + at);
  }
  static __device__ __forceinline__ float Half(const unsigned char* at) {
    return UnpackF16(*reinterpret_cast<const uint16_t*>(at)).x;
  }

  // Returns scale (or minimum) `group` of output `row`.
  static __device__ __forceinline__ float Scale(const unsigned char* step, const unsigned char* factors,
                                                int row, int group) {
    const unsigned char* const at =
        step + kFirstScale<kFormat> + (group * kPanelOutputs + row) * kScaleBytes<kFormat>;
    if constexpr (kFormat == WeightFormat::kQ4K) {
      return __fmul_rn(Half(factors + row * 2), static_cast<float>(*at));
    } else if constexpr (kFactors > 0) {
      return __fmul_rn(Half(factors + row * 2), static_cast<float>(static_cast<int8_t>(*at)));
    } else if constexpr (kFormat == WeightFormat::kMxfp4) {
      return __uint_as_float(static_cast<uint32_t>(*at) << 23);
    } else {
      return Half(at);
    }
  }

  static __device__ __forceinline__ float ValueOf(uint32_t code) {
    const uint64_t eight = code < 8 ? kLowValues<kFormat> : kHighValues<kFormat>;
    return static_cast<float>(static_cast<int8_t>(eight >> (code % 8 * 8)));
  }

  // Returns the weights of inputs k and k + 1 (k is even) of output `row`.
  static __device__ __forceinline__ float2 Pair(const unsigned char* step, const unsigned char* factors,
                                                int row, int k) {
    const int half = row / layout::kHalfRows, output = row % layout::kHalfRows * 4, byte = k % 4 * 8;
    if constexpr (kFormat == WeightFormat::kInt8) {
      const uint32_t two = Word(step, (half * 16 + k / 4) * 64 + output) >> byte;
      const float scale =
          __uint_as_float(Word(step, kInt8Codes + (k / layout::kGroup * kPanelOutputs + row) * 4));
      return make_float2(__fmul_rn(scale, static_cast<float>(static_cast<int8_t>(two))),
                         __fmul_rn(scale, static_cast<float>(static_cast<int8_t>(two >> 8))));
    } else {
      const uint32_t two = Word(step, (half * 8 + k % 32 / 4) * 64 + output) >> (byte + k / 32 * 4);
      if constexpr (kFormat == WeightFormat::kQ6K) {
        const uint32_t upper =
            Word(step, kInt4Codes + (half * 4 + k % 16 / 4) * 64 + output) >> (byte + k / 16 * 2);
        const int first = static_cast<int>((upper & 3u) << 4 | (two & 15u)) - layout::kQ6KOffset;
        const int second = static_cast<int>((upper >> 8 & 3u) << 4 | (two >> 8 & 15u)) - layout::kQ6KOffset;
        const float scale = Scale(step, factors, row, k / layout::kHalfGroup);
        return make_float2(__fmul_rn(scale, static_cast<float>(first)),
                           __fmul_rn(scale, static_cast<float>(second)));
      } else {
        const int group = k / layout::kGroup;
        const float scale = Scale(step, factors, row, group);
        const float first = __fmul_rn(scale, ValueOf(two & 15u));
        const float second = __fmul_rn(scale, ValueOf(two >> 8 & 15u));
        if constexpr (!kHasMinima<kFormat>) return make_float2(first, second);
        float minimum = Scale(step, factors + (kFactors > 1 ? kFactorBytes : 0), row, group + 2);
        if constexpr (kFormat == WeightFormat::kQ4_1) minimum = -minimum;
        return make_float2(__fadd_rn(first, -minimum), __fadd_rn(second, -minimum));
      }
    }
  }
};

template <class Source>
__global__ void __launch_bounds__(kRepackWarps * 32) Widen(RepackArgs args) {
  constexpr int kFactorsBytes = Source::kFactors * kFactorBytes, kOutBytes = StepBytes(DeviceFormat::kBf16);
  NUMOE_SHARED(uint4, steps, [kRepackWarps][(Source::kStepBytes + kFactorsBytes) / 16]);
  const RepackPlace place = PlaceOfWarp();
  const int lane = place.lane, step = place.step, source_steps = StepCount(args.cols);
  if (step >= source_steps) return;
  constexpr int kBlockSteps = layout::kBlockSteps;
  const size_t codes = static_cast<size_t>(source_steps) * Source::kStepBytes;
  const size_t tail = static_cast<size_t>((source_steps + kBlockSteps - 1) / kBlockSteps) * kFactorsBytes;
  const auto* source = reinterpret_cast<const unsigned char*>(args.source) + blockIdx.z * args.source_stride +
                       static_cast<size_t>(place.panel) * (codes + tail);
  const auto* from = reinterpret_cast<const uint4*>(source + static_cast<size_t>(step) * Source::kStepBytes);
  const auto* factors = reinterpret_cast<const uint4*>(
      source + codes + static_cast<size_t>(step / kBlockSteps) * kFactorsBytes);
  uint4* const lines = steps[place.warp];
  for (int i = lane; i < Source::kStepBytes / 16; i += 32) lines[i] = LoadStreaming(from + i);
  for (int i = lane; i < kFactorsBytes / 16; i += 32)
    lines[Source::kStepBytes / 16 + i] = LoadStreaming(factors + i);
  __syncwarp();
  const auto* in = reinterpret_cast<const unsigned char*>(lines);
  ForTargetTiles(args, place, [&](int half, int m, int /*row*/, size_t at, unsigned char* out) {
#pragma unroll 1
    for (int s = 0; s < 4; ++s) {
      uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {  // pair a_j: output g or g + 8, two inputs
        const float2 pair =
            Source::Pair(in, in + Source::kStepBytes, half * kTileOutputs + lane / 4 + j % 2 * 8,
                         s * 16 + lane % 4 * 2 + j / 2 * 8);
        words[j] = PackBf16(pair.x, pair.y);
      }
      *reinterpret_cast<uint4*>(out + at * kOutBytes + Bf16Offset(m, s, lane, 0)) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  });
}

template <WeightFormat... kFormats>
bool LaunchAny(const RepackArgs& args, const LaunchShape& shape, Stream stream) {
  const auto launch = [&](auto codes) {
    using Source = decltype(codes);
    if (args.source_format != Source::kFormat) return false;
    NUMOE_LAUNCH((Widen<Source>), shape, stream, args);
    return true;
  };
  return (launch(Codes<kFormats>()) || ...);
}

}  // namespace

bool LaunchWiden(const RepackArgs& args, Stream stream) {
  const LaunchShape shape = RepackShape(args);
  return LaunchAny<WeightFormat::kInt8, WeightFormat::kQ4K, WeightFormat::kQ4_0, WeightFormat::kQ4_1,
                   WeightFormat::kIq4Nl, WeightFormat::kIq4Xs, WeightFormat::kMxfp4, WeightFormat::kQ6K>(
      args, shape, stream);
}

}  // namespace numoe::execution::cuda
