// The inner loops of the CPU device outside the matrix kernels: dot products, norms, rounding.
//
// They are plain loops in vector_ops.inc, compiled for each instruction set; VectorOpsFor chooses the table
// once, at the start. Every function's result depends only on its arguments, so a token's result never
// depends on its batch.
#pragma once

#include <cstdint>

#include "common/kernels/kernel_types.h"

namespace numoe::execution {

struct VectorOps {
  /// Returns the sum of a[i] * b[i].
  float (*dot)(const float* a, const float* b, int n);
  /// Converts fp32 to BF16, rounding to nearest even.
  void (*to_bf16)(const float* in, uint16_t* out, int n);
  /// Returns the sum of the squares of in.
  float (*sum_squares)(const float* in, int n);
  /// out[i] = in[i] * scale * weight[i].
  void (*scale_by)(const float* in, float scale, const float* weight, float* out, int n);
  /// Rotates (x[2i], x[2i + 1]), or (x[i], x[i + pairs]), by the angle with cosine cos[i] and sine sin[i].
  /// `out` may be `in`.
  void (*rotate_pairs)(const float* in, const float* cos, const float* sin, int pairs, float* out);
  void (*rotate_halves)(const float* in, const float* cos, const float* sin, int pairs, float* out);
};

const VectorOps& VectorOpsFor(Isa isa);

}  // namespace numoe::execution
