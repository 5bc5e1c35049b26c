// Unpacks a matrix from the device's layout to row-major BF16, for products of many tokens by the matrix
// library.
//
// cuBLASLt needs row-major BF16. Compared to the product kernel (dense_tiles.h), which decodes in registers
// and needs no buffer, the bytes of the expanded matrix are written and read in addition; the gain is that
// wgmma is faster than mma.sync on sm_90. ChooseDenseKernel compares the two. Each weight is code * scale,
// rounded to BF16 once. Limited by memory bandwidth.
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/dense_layout.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

struct ExpandArgs {
  DeviceMatrix matrix;
  Bf16* out = nullptr;  // [rows, cols]; for a gated pair the rows of gate, then those of up; 16-byte aligned
  int64_t out_stride = 0;  // elements from row to row, a multiple of 8, >= cols
};
void LaunchExpand(const ExpandArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
