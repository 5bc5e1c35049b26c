// Checks the values of a stored matrix, or of some of its rows: no scale and no code may be NaN or infinite.
//
// `first_row` is the row of the whole matrix with which the view begins, for the error's coordinates. It is a
// multiple of block_rows, or within the block with which the view's scales begin. InvalidArgument says where
// the value is and what it is; the caller adds file and tensor.
#pragma once

#include "absl/status/status.h"
#include "common/weights/checkpoint.h"

namespace numoe {

/// Checks that every scale is finite.
absl::Status CheckScales(const MatrixView& matrix, int64_t first_row);
/// Checks that no code of a block-FP8 matrix is NaN. (INT4 has no NaN; plain weights are checked by the code
/// that rounds them.)
absl::Status CheckCodes(const MatrixView& matrix, int64_t first_row);

}  // namespace numoe
