// Packing of weights that are held as they are stored, at the speed of memory.
//
// In all three layouts (layout.h) a panel's step is a transposition: 16 outputs by words of 4 bytes - four
// FP8 codes, two BF16, or eight INT4 whose nibbles are paired first. So whole panels of whole steps go
// through registers (packing_kernels.h). PackMatrix decides
// where this applies; bytes are those of its general path (packing_test.cc), but that a NaN keeps its
// payload.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/kernel_types.h"
#include "common/weights/checkpoint.h"

namespace numoe {

/// Whether `format` holds `source` as it is stored, and the rectangle is whole panels of whole steps.
bool KeepsStoredBytes(WeightFormat format, const MatrixView& source, int rows, int cols);

/// Rows [row, row + kPanelRows) and columns [col, col + cols) of `source` into one panel, without fp8's
/// scales. REQUIRES: KeepsStoredBytes; `panel` 64-byte aligned; raw_int4: col % 32 == 0.
void PackPanel(WeightFormat format, const MatrixView& source, int64_t row, int64_t col, int cols,
               std::byte* panel);

}  // namespace numoe
