// Packing of GGUF's Q4_K blocks, held as they are stored: codes, 6-bit scales and minima, and their fp16
// factors keep their bits.
//
// A block's codes already pair inputs k and k + 32 in one byte, as a packed step does (layout.h): packing
// them is a transposition. Scales and minima are unpacked to bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/weights/checkpoint.h"

namespace numoe {

/// Rows [row, row + rows) and columns [col, col + cols) of `source` into one panel; rows beyond `rows` and
/// columns beyond `cols` become zero weights. InvalidArgument: a factor is not finite. REQUIRES: `source`
/// holds Q4_K blocks; rows <= kPanelRows; col is a multiple of 256, cols of 32; `panel` 64-byte aligned.
absl::Status PackQ4KPanel(const MatrixView& source, int64_t row, int rows, int64_t col, int cols,
                          std::byte* panel);

}  // namespace numoe
