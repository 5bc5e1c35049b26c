// Activations as the matrix kernels take them, in whatever form the instruction set wants for a matrix.
//
// What Linear, HeadLinear and attention of the CPU device share: rounding a row, and a product that picks the
// kernel by the rows' form. Owns nothing; thread-safe.
#pragma once

#include <cstring>
#include <vector>

#include "absl/base/casts.h"
#include "common/kernels/kernels.h"

namespace numoe {

/// `count` rows in one form, `stride` bytes apart; kFloat rows are plain fp32.
struct InputRows {
  ActivationForm form = ActivationForm::kFloat;
  const std::byte* data = nullptr;
  size_t stride = 0;
  int count = 0;
};

/// One row of `cols` fp32 values to `form`; `out` holds rounded::RowBytes(form, cols).
inline void StoreRow(Isa isa, ActivationForm form, const float* x, int cols, std::byte* out) {
  if (form == ActivationForm::kFloat) {
    std::memcpy(out, x, static_cast<size_t>(cols) * sizeof(float));
  } else {
    RoundRow(isa, form, x, cols, out);
  }
}

/// A row of BF16 values, which no form but INT8's changes.
inline void StoreBf16Row(Isa isa, ActivationForm form, const uint16_t* x, int cols, std::byte* out) {
  if (form == ActivationForm::kBf16) {
    const size_t bytes = static_cast<size_t>(cols) * sizeof(uint16_t);
    std::memcpy(out, x, bytes);
    std::memset(out + bytes, 0, rounded::RowBytes(form, cols) - bytes);
    return;
  }
  std::vector<float> wide(static_cast<size_t>(cols));
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = absl::bit_cast<float>(static_cast<uint32_t>(x[i]) << 16);
  StoreRow(isa, form, wide.data(), cols, out);
}

struct Product {
  PackedMatrix weight;
  int row_begin = 0;  // outputs, as in MatmulArgs
  int row_end = 0;
  InputRows x;
  float* y = nullptr;  // row t's output o at y[t * y_stride + o - row_begin]
  int64_t y_stride = 0;
  const std::byte* next = nullptr;  // RoundedMatmulArgs::next
};

inline void Multiply(Isa isa, const Product& p) {
  if (p.x.form == ActivationForm::kFloat) {
    Matmul(isa, {.weight = p.weight,
                 .row_begin = p.row_begin,
                 .row_end = p.row_end,
                 .x = reinterpret_cast<const float*>(p.x.data),
                 .x_stride = static_cast<int64_t>(p.x.stride / sizeof(float)),
                 .tokens = p.x.count,
                 .y = p.y,
                 .y_stride = p.y_stride});
  } else {
    MatmulRounded(isa, {.weight = p.weight,
                        .row_begin = p.row_begin,
                        .row_end = p.row_end,
                        .form = p.x.form,
                        .x = p.x.data,
                        .x_stride = p.x.stride,
                        .tokens = p.x.count,
                        .y = p.y,
                        .y_stride = p.y_stride,
                        .next = p.next});
  }
}

}  // namespace numoe
