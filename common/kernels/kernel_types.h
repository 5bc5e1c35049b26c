// The plain types that kernels work on: instruction sets, formats, packed matrices, arguments.
//
// No library code is included here. Kernel sources are compiled for instruction sets that the running machine
// may lack, and the linker might keep an inline library function compiled there as the copy for the whole
// program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe {

enum class Isa : uint8_t { kScalar, kAvx2, kAvx512, kAmx };
/// The format of an expert in memory: as published (raw_int4, fp8, GGUF's formats from q4_k to q6_k),
/// quantised at load (int8, int4), or plain (bf16).
enum class WeightFormat : uint8_t {
  kRawInt4,
  kInt4,
  kInt8,
  kBf16,
  kFp8,
  kQ4K,
  kQ4_0,
  kQ4_1,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
  kQ6K
};
inline constexpr size_t kWeightFormats = static_cast<size_t>(WeightFormat::kQ6K) + 1;

/// A packed weight matrix: `rows` outputs x `cols` inputs. Owns nothing.
struct PackedMatrix {
  WeightFormat format = WeightFormat::kBf16;
  int rows = 0;
  int cols = 0;
  const std::byte* data = nullptr;  // 64-byte aligned
};

/// Rows are packed in panels of this many outputs. Row ranges for Matmul begin at multiples of it.
inline constexpr int kPanelRows = 32;

/// Computes y[t * y_stride + (o - row_begin)] = sum_k W[o][k] x[t * x_stride + k] for o in [row_begin,
/// row_end) and t < tokens. Activations are fp32 and stay fp32. The result of a token never depends on how
/// many tokens the call has. REQUIRES: row_begin % kPanelRows == 0; row_end % kPanelRows == 0 or row_end ==
/// rows.
struct MatmulArgs {
  PackedMatrix weight;
  int row_begin = 0;
  int row_end = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;  // floats
  int tokens = 0;
  float* y = nullptr;
  int64_t y_stride = 0;  // floats
};

}  // namespace numoe
