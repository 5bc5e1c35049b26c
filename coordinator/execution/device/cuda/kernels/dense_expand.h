// Unpacks a matrix of the device's layout to row-major BF16, for a library's products of many tokens.
//
// cuBLASLt wants row-major BF16. Against the product kernel (dense_tiles.h), which decodes in registers and
// needs no buffer, that costs the bytes of the expanded matrix twice, written and read, and gains what wgmma
// does beyond mma.sync on sm_90: ChooseDenseWay weighs the two. Each weight is code * scale rounded to BF16
// once. Bound by bytes.
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/dense_layout.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

struct ExpandArgs {
  DeviceMatrix matrix;
  Bf16* out = nullptr;     // [rows, cols]; of a gated pair gate's rows, then up's; 16-byte aligned
  int64_t out_stride = 0;  // elements from row to row, a multiple of 8, >= cols
};
void LaunchExpand(const ExpandArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
