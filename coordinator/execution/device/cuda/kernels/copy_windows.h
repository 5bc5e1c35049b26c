// Copies windows of channels from one activation to another: MLA's rotated query to the place after its
// absorbed part.
//
// Limited by memory bandwidth; accesses are 16 bytes wide. REQUIRES: addresses are 16-byte aligned; width,
// strides and offsets are multiples of 8 values.
#pragma once

#include "coordinator/execution/device/cuda/kernels/elementwise.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

struct CopyWindowsArgs {
  Windows<const Bf16> in;
  Windows<Bf16> out;  // has as many heads as `in`
  int rows = 0;
  int width = 0;
};
void LaunchCopyWindows(const CopyWindowsArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
