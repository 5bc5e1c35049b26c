// The inner loops of the CPU device outside the matrix kernels: dot products, norms, rounding.
//
// Written once as plain loops in vector_ops.inc and compiled for each instruction set; VectorOpsFor picks the
// table once, at start. Every function's result depends on its own arguments only, so that a token's result
// never depends on the batch around it.
#pragma once

#include <cstdint>

#include "common/kernels/kernel_types.h"

namespace numoe::execution {

struct VectorOps {
  /// sum of a[i] * b[i].
  float (*dot)(const float* a, const float* b, int n);
  /// fp32 to BF16, to nearest even.
  void (*to_bf16)(const float* in, uint16_t* out, int n);
  /// out[i] = in[i] * scale * weight[i]; sum of squares of in.
  float (*sum_squares)(const float* in, int n);
  void (*scale_by)(const float* in, float scale, const float* weight, float* out, int n);
  /// Turns (x[2i], x[2i + 1]), or (x[i], x[i + pairs]), by the angle with cosine cos[i] and sine sin[i].
  /// `out` may be `in`.
  void (*rotate_pairs)(const float* in, const float* cos, const float* sin, int pairs, float* out);
  void (*rotate_halves)(const float* in, const float* cos, const float* sin, int pairs, float* out);
};

const VectorOps& VectorOpsFor(Isa isa);

}  // namespace numoe::execution
