// Packs stored matrices into the layout that the device multiplies from (kernels/dense_layout.h).
//
// Pure functions on host memory: what they write is copied to the device as it is. Block FP8 and INT4 of
// groups of 32 keep every stored bit; BF16 does where the source is BF16; everything else is decoded and
// rounded to BF16, to nearest. Thread-safe: different matrices may be packed at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/weights/checkpoint.h"
#include "coordinator/device/cuda/kernels/dense_layout.h"

namespace numoe::cuda {

/// The format that keeps `stored` as published, or kBf16: FP8 whose blocks are whole tiles of 16 outputs and
/// steps of 64 inputs, INT4 in groups of 32 with BF16 scales.
DeviceFormat NativeDeviceFormat(const MatrixView& stored);

/// REQUIRES: `format` is kBf16 or NativeDeviceFormat(source); out.size() == DeviceBytes(format, source.rows,
/// source.cols, false).
void PackDeviceMatrix(DeviceFormat format, const MatrixView& source, absl::Span<std::byte> out);

/// The two halves of a SwiGLU as one matrix. REQUIRES: as above for both, which have one shape; out.size() ==
/// DeviceBytes(format, gate.rows, gate.cols, true).
void PackDeviceGated(DeviceFormat format, const MatrixView& gate, const MatrixView& up,
                     absl::Span<std::byte> out);

/// Row-major [rows, cols] fp32 as BF16. REQUIRES: out.size() == DeviceBytes(kBf16, rows, cols, false).
void PackDeviceValues(absl::Span<const float> values, int rows, int cols, absl::Span<std::byte> out);

/// The weight that the packed bytes stand for, for tests and references; `half` 1: up's, of a gated pair.
/// `matrix.data` is host memory.
float UnpackDeviceWeight(const DeviceMatrix& matrix, int row, int col, int half = 0);

}  // namespace numoe::cuda
