// Packing of weights that are held as they are stored, at the speed of memory.
//
// In all three layouts (layout.h) a panel's step is a transposition: 16 outputs by words of 4 bytes - four
// FP8 codes, two BF16, or eight INT4 whose nibbles are paired first. So whole panels of whole steps go
// through registers 16 words at a time, with nothing but SSE2, which every x86-64 has. PackMatrix decides
// where this applies; bytes are those of its general path (packing_test.cc), but that a NaN keeps its
// payload.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/kernels/kernel_types.h"
#include "common/weights/checkpoint.h"

namespace numoe {

/// `words` words (a multiple of 4) of 16 rows, `row_bytes` apart, to as many 64-byte lines of 16 outputs.
/// Past the caches: a fence must follow before another thread reads them.
void TransposeHalf(const std::byte* first_row, size_t row_bytes, int words, std::byte* out);

/// Whether `format` holds `source` as it is stored, and the rectangle is whole panels of whole steps.
bool KeepsStoredBytes(WeightFormat format, const MatrixView& source, int rows, int cols);

/// Rows [row, row + kPanelRows) and columns [col, col + cols) of `source` into one panel, without fp8's
/// scales. REQUIRES: KeepsStoredBytes; `panel` 64-byte aligned; raw_int4: col % 32 == 0.
void PackPanel(WeightFormat format, const MatrixView& source, int64_t row, int64_t col, int cols,
               std::byte* panel);

}  // namespace numoe
