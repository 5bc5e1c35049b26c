// WeightStore: the model's weights in the device's memory, or without a device only the bytes they would
// take.
//
// Matrices are packed on the host (device_weights.h) and copied as they are. Everything stays until the store
// ends. INVALID_ARGUMENT: a matrix that the device's layout cannot hold; RESOURCE_EXHAUSTED: the device is
// full. One thread, at load time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/weights/checkpoint.h"
#include "coordinator/device/cuda/kernels/dense_layout.h"
#include "coordinator/device/cuda/runtime.h"

namespace numoe::cuda {

/// One matrix per attention head, `head_bytes` apart.
struct DeviceHeads {
  DeviceMatrix first;
  int heads = 0;
  size_t head_bytes = 0;
};

class WeightStore {
 public:
  /// `runtime` null: counts only.
  WeightStore(Runtime* runtime, Stream stream) : runtime_(runtime), stream_(stream) {}

  absl::StatusOr<DeviceMatrix> Load(const MatrixView& source);
  absl::StatusOr<DeviceMatrix> LoadGated(const MatrixView& gate, const MatrixView& up);
  /// `values` is [heads, rows, cols]; stored as BF16.
  absl::StatusOr<DeviceHeads> LoadHeads(absl::Span<const float> values, int heads, int rows, int cols);
  /// Row-major BF16 [rows, cols]: what is looked up by row.
  absl::StatusOr<const Bf16*> LoadRows(const MatrixView& source);
  /// An error is kept for status().
  const float* LoadFloats(absl::Span<const float> values);
  absl::Status status() const { return first_error_; }
  uint64_t bytes() const { return bytes_; }

 private:
  template <typename Pack>
  absl::StatusOr<const std::byte*> Store(size_t bytes, Pack pack);

  Runtime* const runtime_;
  const Stream stream_;
  uint64_t bytes_ = 0;
  absl::Status first_error_;
  std::vector<std::byte> staging_;
  std::vector<std::unique_ptr<Memory>> memory_;
};

}  // namespace numoe::cuda
