// From the workers' packed layout (common/kernels/layout.h) to the device's: an expert's bytes as they lie in
// a worker's memory become a part of a slot.
//
// Both layouts are panels of 32 outputs and steps of 64 inputs. Of raw_int4, int4, fp8 and bf16 both have the
// same bytes, so this is a permutation within each step; what it makes is bit for bit what PackDeviceMatrix
// and PackDeviceGated (device_weights.h) make of the published matrix. Weights of the workers' other formats
// (int8, and those of GGUF files) become BF16, each rounded once: an error of at most 2^-9 of itself, as the
// workers' own tiles for many tokens have; they cross PCIe as they are and take 2 bytes a weight here. One
// warp a step; `source` is read once, in order, 16 bytes a lane, so it may be memory of the host that the
// device sees (then PCIe is the limit) or a copy of it. A worker that holds a slice of the intermediate
// dimension fills that part of the target.
#pragma once

#include <cstddef>

#include "common/kernels/kernel_types.h"
#include "coordinator/execution/device/cuda/kernels/dense_layout.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

struct RepackArgs {
  // A packed matrix, 64-byte aligned: [panels][steps], some formats' panels with tails. Its format is the
  // target's, or where that is BF16, `source_format`.
  const std::byte* source = nullptr;
  int rows = 0;  // of the source
  int cols = 0;
  DeviceMatrix target;       // the whole matrix, for its shape
  std::byte* out = nullptr;  // and its data, 128-byte aligned
  int half = 0;              // of a gated target: 0 gate, 1 up
  int row_begin = 0;         // the target's output that the source begins with: a multiple of 32 (gated: 16)
  int col_begin = 0;         // and input: a multiple of 64
  // Of `count` experts at once, so many bytes from one to the next; multiples of 16.
  int count = 1;
  size_t source_stride = 0;
  size_t out_stride = 0;
  WeightFormat source_format = WeightFormat::kBf16;
};
/// REQUIRES: count <= 65,535; the source lies inside the target and, where it ends inside it, ends with a
/// whole panel (gated: 16 outputs) and step.
void LaunchRepack(const RepackArgs& args, Stream stream);

/// LaunchRepack's part for formats that become BF16; false: source_format is none of them.
bool LaunchWiden(const RepackArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
