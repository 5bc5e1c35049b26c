// Packs GGUF's blocks of 4 and 6 bits that are held as they are stored: codes and scales keep their bits.
//
// Codes are paired as a packed step needs them - input k in the low half of a byte, k + 32 in the high half -
// and transposed; Q4_K stores them in pairs already. Four of Q6_K's upper two bits go into a byte, for inputs
// k, k + 16, k + 32 and k + 48. Scales go where layout.h says: those of Q4_K and IQ4_XS are unpacked to
// bytes, and MXFP4's exponents are decremented, so that a zero byte is a scale of zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/kernels/kernel_types.h"
#include "common/weights/checkpoint.h"

namespace numoe {

/// Packs rows [row, row + rows) and columns [col, col + cols) of `source` into one panel. Rows beyond `rows`
/// and columns beyond `cols` become zero weights, and so do MXFP4's weights with a scale below 2^-126.
/// InvalidArgument if a scale is not finite. REQUIRES: `source` holds GgmlTypeOf(format); rows <= kPanelRows;
/// col is a multiple of a block's values, cols a multiple of 32; `panel` is 64-byte aligned.
absl::Status PackGgmlPanel(WeightFormat format, const MatrixView& source, int64_t row, int rows, int64_t col,
                           int cols, std::byte* panel);

}  // namespace numoe
