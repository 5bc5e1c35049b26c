// Converts weights from the workers' packed layout (common/kernels/layout.h) to the device's: the bytes of an
// expert from a worker's memory become a part of a slot.
//
// Both layouts have panels of 32 outputs and steps of 64 inputs. For raw_int4, int4, fp8 and bf16 both have
// the same bytes, so this is a permutation within each step; the result is bit for bit that of
// PackDeviceMatrix and PackDeviceGated (device_weights.h) for the published matrix. Weights of the workers'
// other formats (int8, and those of GGUF files) become BF16, each rounded once, with an error of at most 2^-9
// of itself, as in the workers' own tiles for many tokens; they are transferred over PCIe in the workers'
// format and need 2 bytes per weight here. One warp converts one step; `source` is read once, in order, 16
// bytes per lane, so it may be host memory that is mapped into the device's address space (then PCIe is the
// limit) or a copy of it. A worker that holds a slice of the intermediate dimension fills that part of the
// target.
#pragma once

#include <cstddef>

#include "common/kernels/kernel_types.h"
#include "coordinator/execution/device/cuda/kernels/dense_layout.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

struct RepackArgs {
  // A packed matrix, 64-byte aligned: [panels][steps]; in some formats a panel has a tail. Its format is that
  // of the target, or `source_format` if the target is BF16.
  const std::byte* source = nullptr;
  int rows = 0;  // rows of the source
  int cols = 0;
  DeviceMatrix target;       // the shape of the whole matrix; its data is not used
  std::byte* out = nullptr;  // the data of the target, 128-byte aligned
  int half = 0;              // in a gated target: 0 for gate, 1 for up
  int row_begin = 0;         // the target's output with which the source begins: a multiple of 32 (gated: 16)
  int col_begin = 0;         // the target's input with which the source begins: a multiple of 64
  // The number of experts that are converted together, and the bytes from one to the next, which are
  // multiples of 16.
  int count = 1;
  size_t source_stride = 0;
  size_t out_stride = 0;
  WeightFormat source_format = WeightFormat::kBf16;
};
/// REQUIRES: count <= 65,535; the source is inside the target and, if it ends before the target's end, ends
/// with a whole panel (gated: 16 outputs) and a whole step.
void LaunchRepack(const RepackArgs& args, Stream stream);

/// The part of LaunchRepack for formats that become BF16. Returns false if source_format is not one of them.
bool LaunchWiden(const RepackArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
