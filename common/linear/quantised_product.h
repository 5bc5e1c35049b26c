// The product of quantised activations with a packed matrix, for every format of the activations.
//
// An output's bits depend neither on the other outputs that are computed with it nor on the other rows
// (common/kernels/CONTRACT.md), so callers may divide outputs and rows into tasks in any way. Owns nothing;
// thread-safe if calls write different outputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/linear/quantised_rows.h"

namespace numoe {

struct QuantisedProduct {
  PackedMatrix weight;
  int row_begin = 0;  // outputs [row_begin, row_end), as in MatmulArgs: whole panels
  int row_end = 0;
  QuantisedRows x;
  float* y = nullptr;               // row t's output o is written to y[t * y_stride + o - row_begin]
  int64_t y_stride = 0;             // floats
  const std::byte* next = nullptr;  // packed weights that the caller reads next, to be prefetched, or null
};

/// REQUIRES: x.format is what ChooseActivationFormat returned for `isa` and the weight's format, or kFloat.
void Multiply(Isa isa, const QuantisedProduct& product);

/// Return the bytes of one panel, and of all panels.
size_t PanelBytes(const PackedMatrix& matrix);
size_t MatrixBytes(const PackedMatrix& matrix);
/// Returns the panel whose first output is `row`.
const std::byte* PanelAt(const PackedMatrix& matrix, int row);

}  // namespace numoe
