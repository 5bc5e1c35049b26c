// Packs weights that are held as they are stored, at the speed of memory.
//
// In all three layouts (layout.h) a panel's step is a transposition of 16 outputs by words of 4 bytes: four
// FP8 codes, two BF16 values, or eight INT4 codes whose nibbles are paired first. So whole panels of whole
// steps are transposed in registers (packing_kernels.h). PackMatrix decides where this applies. The bytes are
// the same as those of its general path (packing_test.cc), except that a NaN keeps its payload.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/kernel_types.h"
#include "common/weights/checkpoint.h"

namespace numoe {

/// Returns whether `format` holds `source` as it is stored, and the rectangle consists of whole panels of
/// whole steps.
bool KeepsStoredBytes(WeightFormat format, const MatrixView& source, int rows, int cols);

/// Packs rows [row, row + kPanelRows) and columns [col, col + cols) of `source` into one panel, without fp8's
/// scales. REQUIRES: KeepsStoredBytes; `panel` is 64-byte aligned; for raw_int4 col % 32 == 0.
void PackPanel(WeightFormat format, const MatrixView& source, int64_t row, int64_t col, int cols,
               std::byte* panel);

}  // namespace numoe
