// Checks of a stored matrix's values, of all of it or of some of its rows: no scale and no code that stands
// for no number.
//
// `first_row` is the row of the whole matrix that the view begins with, for the error's coordinates; a
// multiple of block_rows, or within the block that the view's scales begin with. InvalidArgument says where
// and what; the caller adds file and tensor.
#pragma once

#include "absl/status/status.h"
#include "common/weights/checkpoint.h"

namespace numoe {

/// Every scale is finite.
absl::Status CheckScales(const MatrixView& matrix, int64_t first_row);
/// No code of a block-FP8 matrix is NaN (INT4 has none; plain weights are checked by who rounds them).
absl::Status CheckCodes(const MatrixView& matrix, int64_t first_row);

}  // namespace numoe
