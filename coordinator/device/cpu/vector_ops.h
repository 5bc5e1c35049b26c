// The inner loops of the CPU device outside the matrix kernels: dot products and updates over cache rows.
//
// Written once as plain loops in vector_ops.inc and compiled for each instruction set; VectorOpsFor picks the
// table once, at start. Every function's result depends on its own arguments only, so that a token's result
// never depends on the batch around it.
#pragma once

#include <cstdint>

#include "common/kernels/kernel_types.h"

namespace numoe {

struct VectorOps {
  /// sum of a[i] * b[i].
  float (*dot)(const float* a, const float* b, int n);
  /// scores[h] = sum of q[h * q_stride + i] * key[i]; `key` holds BF16.
  void (*dot_heads)(const float* q, int64_t q_stride, int heads, const uint16_t* key, int n, float* scores);
  /// out[h * out_stride + i] = out * keep[h] + weight[h] * value[i]; `value` holds BF16.
  void (*update_heads)(float* out, int64_t out_stride, int heads, const float* keep, const float* weight,
                       const uint16_t* value, int n);
  /// fp32 to BF16, to nearest even.
  void (*to_bf16)(const float* in, uint16_t* out, int n);
  /// out[i] = in[i] * scale * weight[i]; sum of squares of in.
  float (*sum_squares)(const float* in, int n);
  void (*scale_by)(const float* in, float scale, const float* weight, float* out, int n);
};

const VectorOps& VectorOpsFor(Isa isa);

}  // namespace numoe
