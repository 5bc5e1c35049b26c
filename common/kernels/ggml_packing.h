// Packing of GGUF's blocks of 4 and 6 bits that are held as they are stored: codes and scales keep their
// bits.
//
// Codes are paired as a packed step has them - input k in the low half of a byte, k + 32 in the high one -
// and transposed; Q4_K stores them so already. Q6_K's upper two bits go four to a byte, of k, k + 16, k + 32
// and k + 48. Scales go to where layout.h says, Q4_K's and IQ4_XS's unpacked
// to bytes, MXFP4's exponents less one, so that a byte of zero is a scale of zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/kernels/kernel_types.h"
#include "common/weights/checkpoint.h"

namespace numoe {

/// Rows [row, row + rows) and columns [col, col + cols) of `source` into one panel; rows beyond `rows` and
/// columns beyond `cols` become zero weights, and so do MXFP4's with a scale below 2^-126. InvalidArgument: a
/// scale is not finite. REQUIRES: `source` holds GgmlTypeOf(format); rows <= kPanelRows; col is a multiple of
/// a block's values, cols of 32; `panel` 64-byte aligned.
absl::Status PackGgmlPanel(WeightFormat format, const MatrixView& source, int64_t row, int rows, int64_t col,
                           int cols, std::byte* panel);

}  // namespace numoe
