// Packs stored matrices into the layout that the device's product kernels read (kernels/dense_layout.h).
//
// Pure functions on host memory: their output is copied to the device unchanged. Block FP8 and INT4 in groups
// of 32 keep every stored bit, and so does BF16 from a BF16 source; all other formats are decoded and rounded
// to BF16, to nearest. Thread-safe: different matrices may be packed at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/weights/checkpoint.h"
#include "coordinator/execution/device/cuda/kernels/dense_layout.h"

namespace numoe::execution::cuda {

/// Returns the format that keeps every bit of `stored`, or kBf16 if there is none: kFp8 for FP8 whose blocks
/// consist of whole tiles of 16 outputs and steps of 64 inputs, kInt4 for INT4 in groups of 32 with BF16
/// scales.
DeviceFormat NativeDeviceFormat(const MatrixView& stored);

/// The source of a packed matrix: one matrix, or gate and up of a SwiGLU, which have the same shape and are
/// packed together. REQUIRES: `format` is kBf16, or NativeDeviceFormat of both matrices.
struct DevicePack {
  DeviceFormat format = DeviceFormat::kBf16;
  MatrixView first;   // the matrix, or gate
  MatrixView second;  // up; has no rows if `first` is a single matrix

  bool gated() const { return second.rows > 0; }
  int64_t panels() const;
  size_t panel_bytes() const;  // without the scales that follow all panels
  size_t bytes() const;        // DeviceBytes of the whole matrix
};

/// Panels [first, last), which are contiguous, so that several threads can pack pieces of a matrix.
struct PanelRange {
  int64_t first = 0;
  int64_t last = 0;
};
/// REQUIRES: out.size() is the size of these panels.
void PackPanels(const DevicePack& pack, const PanelRange& panels, absl::Span<std::byte> out);
/// Writes the bytes after the last panel: FP8's scales, and zeros that round the size up.
void PackTail(const DevicePack& pack, absl::Span<std::byte> out);
/// Writes the whole matrix. REQUIRES: out.size() == pack.bytes().
void PackDevice(const DevicePack& pack, absl::Span<std::byte> out);
void PackDeviceMatrix(DeviceFormat format, const MatrixView& source, absl::Span<std::byte> out);
void PackDeviceGated(DeviceFormat format, const MatrixView& gate, const MatrixView& up,
                     absl::Span<std::byte> out);

/// Returns a view of row-major fp32 values [rows, cols] that can be packed.
MatrixView ValuesView(absl::Span<const float> values, int rows, int cols);

/// Decodes one weight of a packed matrix, for tests and references; with `half` 1 a weight of `up` of a gated
/// pair. `matrix.data` is host memory.
float UnpackDeviceWeight(const DeviceMatrix& matrix, int row, int col, int half = 0);

}  // namespace numoe::execution::cuda
