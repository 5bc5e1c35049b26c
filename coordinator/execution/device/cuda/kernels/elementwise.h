// The operations between matrix products: embedding, norms, rotation, activation, sums, gathers, conversions.
//
// All of them are limited by memory bandwidth, so every access is 16 bytes wide and a row is read once: a
// norm keeps its window in registers between its two passes. Rows are the tokens of a step; `rows` is the
// bound of the launch, and a row that the step does not have (position, token or index -1) gets zeros, which
// all other operations here keep zero. Results of a row depend neither on other rows nor on the schedule.
// REQUIRES for all: addresses are 16-byte aligned; widths, strides and offsets are multiples of 8 values.
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

/// A view of the channels of rows as windows: window h of row t begins at data + t * row_stride + h * stride
/// + offset.
template <class T>
struct Windows {
  T* data = nullptr;
  int64_t row_stride = 0;
  int heads = 1;
  int stride = 0;
  int offset = 0;
};

/// out[t] = table[tokens[t]], zeros where the token is -1. A table is BF16, or E4M3 with a scale for each
/// square of 128 x 128 weights (DeepSeek-V3, https://arxiv.org/abs/2412.19437, 3.3.2).
struct EmbedArgs {
  const Bf16* bf16 = nullptr;     // [vocabulary, hidden]; null if the table is FP8
  const uint8_t* fp8 = nullptr;   // [vocabulary, hidden]
  const float* scales = nullptr;  // [ceil(vocabulary / 128), ceil(hidden / 128)]
  const int32_t* tokens = nullptr;
  float* out = nullptr;  // [rows, hidden]
  int rows = 0;
  int hidden = 0;
};
void LaunchEmbed(const EmbedArgs& args, Stream stream);

/// For each window of `width` channels: out = in * rsqrt(mean(in^2) + eps) * weight, in fp32, rounded once.
/// `out` may be the same windows as `in`. Source: https://arxiv.org/abs/1910.07467.
template <class T>
struct RmsNormArgs {
  Windows<const T> in;
  Windows<Bf16> out;              // as many heads as `in`
  const float* weight = nullptr;  // [width]
  float eps = 0;
  int rows = 0;
  int width = 0;  // at most kNormWidthMax
};
inline constexpr int kNormWidthMax = 16384;
void LaunchRmsNorm(const RmsNormArgs<float>& args, Stream stream);
void LaunchRmsNorm(const RmsNormArgs<Bf16>& args, Stream stream);

/// residual += delta, out = RmsNorm(residual): the operations between attention and MLP of a layer, in one
/// pass.
template <class T>
struct AddRmsNormArgs {
  float* residual = nullptr;      // [rows, width]
  const T* delta = nullptr;       // [rows, width]
  Bf16* out = nullptr;            // [rows, width]
  const float* weight = nullptr;  // [width]
  float eps = 0;
  int rows = 0;
  int width = 0;
};
void LaunchAddRmsNorm(const AddRmsNormArgs<float>& args, Stream stream);
void LaunchAddRmsNorm(const AddRmsNormArgs<Bf16>& args, Stream stream);

/// The cosines, then the sines, of the rows' angles, times the multiplier; computed once per step for all
/// layers. The computation is in fp64, because an fp32 product of position and frequency is off by up to 0.01
/// rad at 256k positions. Rows whose position is -1 get zeros.
struct RopeCosSinArgs {
  const int32_t* positions = nullptr;  // [rows]
  const float* inverse = nullptr;      // [pairs] radians per position
  float multiplier = 1;
  float* cos_sin = nullptr;  // [rows, 2 * pairs]
  int rows = 0;
  int pairs = 0;
};
void LaunchRopeCosSin(const RopeCosSinArgs& args, Stream stream);

/// Rotates (x[2i], x[2i + 1]) if interleaved, else (x[i], x[i + pairs]), of each window by angle i of its
/// row. The window's other channels are not changed. `out` may be the same windows as `in`. REQUIRES: pairs
/// is a multiple of 8.
struct RopeArgs {
  Windows<const Bf16> in;
  Windows<Bf16> out;               // as many heads as `in`
  const float* cos_sin = nullptr;  // of LaunchRopeCosSin
  bool interleaved = false;
  int rows = 0;
  int pairs = 0;
};
void LaunchRope(const RopeArgs& args, Stream stream);

/// out = silu(gate) * up, in fp32, rounded once.
struct SiluMulArgs {
  const Bf16* gate = nullptr;  // row t at gate + t * in_stride
  const Bf16* up = nullptr;
  int64_t in_stride = 0;
  Bf16* out = nullptr;  // [rows, width]
  int rows = 0;
  int width = 0;
};
void LaunchSiluMul(const SiluMulArgs& args, Stream stream);

/// sum[i] += add[i] for `size` values.
void LaunchAdd(float* sum, const float* add, int64_t size, Stream stream);
void LaunchAdd(float* sum, const Bf16* add, int64_t size, Stream stream);

/// out[i] = in[i], rounded to nearest even if the output type is narrower.
void LaunchConvert(const float* in, Bf16* out, int64_t size, Stream stream);
void LaunchConvert(const Bf16* in, float* out, int64_t size, Stream stream);

/// out[r] = in[index[r]], or zeros if the index is -1. Rows have `row_bytes` bytes, a multiple of 16.
struct SelectRowsArgs {
  const void* in = nullptr;
  const int32_t* index = nullptr;  // [rows]
  void* out = nullptr;
  int rows = 0;
  int64_t row_bytes = 0;
};
void LaunchSelectRows(const SelectRowsArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
