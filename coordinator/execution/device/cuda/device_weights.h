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
#include "coordinator/execution/device/cuda/kernels/dense_layout.h"

namespace numoe::execution::cuda {

/// The format that keeps `stored` as published, or kBf16: FP8 whose blocks are whole tiles of 16 outputs and
/// steps of 64 inputs, INT4 in groups of 32 with BF16 scales.
DeviceFormat NativeDeviceFormat(const MatrixView& stored);

/// What is packed: a matrix, or the two halves of a SwiGLU, of one shape, as one. REQUIRES: `format` is kBf16
/// or NativeDeviceFormat of both.
struct DevicePack {
  DeviceFormat format = DeviceFormat::kBf16;
  MatrixView first;   // the matrix, or gate
  MatrixView second;  // up; no rows: there is none

  bool gated() const { return second.rows > 0; }
  int64_t panels() const;
  size_t panel_bytes() const;  // without the scales that lie behind all panels
  size_t bytes() const;        // DeviceBytes of it
};

/// Panels [first, last), which lie one behind the other: pieces of a matrix can be packed by many threads.
struct PanelRange {
  int64_t first = 0;
  int64_t last = 0;
};
/// REQUIRES: out.size() is that of the panels.
void PackPanels(const DevicePack& pack, const PanelRange& panels, absl::Span<std::byte> out);
/// What lies behind the last panel: FP8's scales, and zeros that round the size up.
void PackBehindPanels(const DevicePack& pack, absl::Span<std::byte> out);
/// All of it. REQUIRES: out.size() == pack.bytes().
void PackDevice(const DevicePack& pack, absl::Span<std::byte> out);
void PackDeviceMatrix(DeviceFormat format, const MatrixView& source, absl::Span<std::byte> out);
void PackDeviceGated(DeviceFormat format, const MatrixView& gate, const MatrixView& up,
                     absl::Span<std::byte> out);

/// Row-major [rows, cols] fp32 as a matrix to pack.
MatrixView ValuesView(absl::Span<const float> values, int rows, int cols);

/// The weight that the packed bytes stand for, for tests and references; `half` 1: up's, of a gated pair.
/// `matrix.data` is host memory.
float UnpackDeviceWeight(const DeviceMatrix& matrix, int row, int col, int half = 0);

}  // namespace numoe::execution::cuda
