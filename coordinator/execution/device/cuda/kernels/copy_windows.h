// Copies windows of channels from one activation to another: MLA's rotated query beside its absorbed half.
//
// Bound by its bytes; 16-byte accesses. REQUIRES: addresses 16-byte aligned; width, strides and offsets
// multiples of 8 values.
#pragma once

#include "coordinator/execution/device/cuda/kernels/elementwise.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

struct CopyWindowsArgs {
  Windows<const Bf16> in;
  Windows<Bf16> out;  // as many heads as `in`
  int rows = 0;
  int width = 0;
};
void LaunchCopyWindows(const CopyWindowsArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
