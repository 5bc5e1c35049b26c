// The expected results of products on the device, for the tests of all kernels that multiply.
//
// Provides random stored matrices packed for the device, activations, and the products in double precision
// with a bound on their error: that of fp32 sums in any order, of a SwiGLU, and of rounding to BF16.
// Test-only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "common/formats/bf16.h"
#include "coordinator/execution/device/cuda/device_weights.h"
#include "coordinator/execution/device/cuda/kernels/dense_plan.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"
#include "tests/support/device_buffer.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe::execution::cuda {

inline WeightFormat SourceOf(DeviceFormat format) {
  return format == DeviceFormat::kBf16  ? WeightFormat::kBf16
         : format == DeviceFormat::kFp8 ? WeightFormat::kFp8
                                        : WeightFormat::kRawInt4;
}

/// Packed random matrices, stored contiguously, and their values.
struct PackedOnDevice {
  PackedOnDevice(DeviceFormat format, int rows, int cols, bool gated, int count, std::mt19937& random)
      : bytes(static_cast<size_t>(count) * DeviceBytes(format, rows, cols, gated)),
        matrix{format, rows, cols, gated, nullptr},
        device(bytes.size()) {
    const size_t each = DeviceBytes(format, rows, cols, gated);
    for (int i = 0; i < count; ++i) {
      const Stored first = RandomStored(SourceOf(format), rows, cols, random);
      const auto out = absl::MakeSpan(bytes).subspan(static_cast<size_t>(i) * each, each);
      if (gated) {
        const Stored second = RandomStored(SourceOf(format), rows, cols, random);
        PackDeviceGated(format, first.view, second.view, out);
        continue;
      }
      PackDeviceMatrix(format, first.view, out);
    }
    device.Upload(bytes);
    matrix.data = device.data();
  }

  size_t each() const { return DeviceBytes(matrix.format, matrix.rows, matrix.cols, matrix.gated); }
  /// Returns the values of matrix `index`, [half][row][col].
  std::vector<float> Values(int index) const {
    DeviceMatrix m = matrix;
    m.data = bytes.data() + static_cast<size_t>(index) * each();
    std::vector<float> values;
    for (int half = 0; half < (m.gated ? 2 : 1); ++half) {
      for (int row = 0; row < m.rows; ++row) {
        for (int col = 0; col < m.cols; ++col) values.push_back(UnpackDeviceWeight(m, row, col, half));
      }
    }
    return values;
  }

  std::vector<std::byte> bytes;
  DeviceMatrix matrix;
  DeviceBuffer<std::byte> device;
};

inline std::vector<Bf16> RandomBf16(size_t count, std::mt19937& random) {
  std::vector<Bf16> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = {EncodeBf16(RandomFloats(1, random)[0])};
  return values;
}

struct Bounded {
  double value = 0;
  double error = 0;  // bound for fp32 sums in any order, including the tensor core's truncation
};

/// Returns the product of a row of weights with a token. If `rounded`, weights may have been rounded to BF16.
inline Bounded Dot(const float* weights, const Bf16* x, int cols, bool rounded) {
  double sum = 0, magnitude = 0;
  for (int k = 0; k < cols; ++k) {
    const double product = static_cast<double>(weights[k]) * static_cast<double>(DecodeBf16(x[k].bits));
    sum += product, magnitude += std::fabs(product);
  }
  return {sum, magnitude * ((cols + 8) * 0x1p-23 + (rounded ? 0x1p-8 + 0x1p-15 : 0))};
}

/// Returns silu(gate) * up: silu changes by at most 1.1 times the change of its argument, and has 8 roundings
/// itself.
inline Bounded SwiGlu(const Bounded& gate, const Bounded& up) {
  const double silu = gate.value / (1 + std::exp(-gate.value));
  const double error = 1.1 * gate.error + 0x1p-20 * std::fabs(silu) + 1e-30;
  const double value = silu * up.value;
  return {value,
          error * (std::fabs(up.value) + up.error) + std::fabs(silu) * up.error + 0x1p-20 * std::fabs(value)};
}

/// Returns the value stored as BF16: any value within the error may be rounded.
inline Bounded RoundedToBf16(const Bounded& b) {
  return {b.value, b.error + (std::fabs(b.value) + b.error) * 0x1p-8};
}

/// Returns the outputs [rows] of one token for the matrix values `w` ([half][row][col]).
inline std::vector<Bounded> Products(const DeviceMatrix& m, const std::vector<float>& w, const Bf16* x,
                                     const GemmPlan& plan) {
  const bool rounded = m.format != DeviceFormat::kBf16 && plan.token_tiles == kTokenTilesMax;
  std::vector<Bounded> outputs;
  const size_t cols = static_cast<size_t>(m.cols), rows = static_cast<size_t>(m.rows);
  for (size_t row = 0; row < rows; ++row) {
    const Bounded first = Dot(&w[row * cols], x, m.cols, rounded);
    outputs.push_back(m.gated ? SwiGlu(first, Dot(&w[(rows + row) * cols], x, m.cols, rounded)) : first);
  }
  return outputs;
}

}  // namespace numoe::execution::cuda
