// WeightStore: the model's weights in the device's memory; without a device, it only counts the bytes they
// would need.
//
// Matrices are packed on the host (device_weights.h) by all CPUs of the calling thread, piece by piece into
// two buffers of pinned memory: one is copied while the other is filled. Loaded weights may be used after
// Finish, until the store is destroyed. RESOURCE_EXHAUSTED: the device's memory, or the memory that may be
// pinned, is used up. One thread, at load time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/threading/thread_pool.h"
#include "common/weights/checkpoint.h"
#include "coordinator/execution/device/cuda/device_weights.h"
#include "coordinator/execution/device/cuda/kernels/dense_layout.h"
#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::execution::cuda {

/// One matrix per attention head, `head_bytes` apart.
struct DeviceHeads {
  DeviceMatrix first;
  int heads = 0;
  size_t head_bytes = 0;
};

class WeightStore {
 public:
  /// The size of each of the two buffers: copied in a millisecond or two over PCIe, and dozens of panels of
  /// the widest matrices.
  static constexpr size_t kStagingBytes = size_t{64} << 20;

  /// If `runtime` is null, the store only counts.
  explicit WeightStore(Runtime* runtime, size_t staging_bytes = kStagingBytes)
      : runtime_(runtime), staging_bytes_(staging_bytes) {}

  absl::StatusOr<DeviceMatrix> Load(const MatrixView& source);
  absl::StatusOr<DeviceMatrix> LoadGated(const MatrixView& gate, const MatrixView& up);
  /// `values` is [heads, rows, cols]; stored as BF16.
  absl::StatusOr<DeviceHeads> LoadHeads(absl::Span<const float> values, int heads, int rows, int cols);
  /// Loads a table whose rows are looked up, as row-major BF16 [rows, cols].
  absl::StatusOr<const Bf16*> LoadRows(const MatrixView& source);
  /// An error is kept and returned by Finish.
  const float* LoadFloats(absl::Span<const float> values);
  /// Waits until all weights are on the device, and releases buffers and threads. Returns the first error of
  /// all loading.
  absl::Status Finish();
  /// The bytes of the device's allocations.
  uint64_t bytes() const { return bytes_; }

 private:
  // Writes units [first, last) of the data to store.
  using PackUnits = absl::FunctionRef<void(int64_t first, int64_t last, absl::Span<std::byte> out)>;
  struct Units {
    int64_t count = 0;
    size_t bytes = 0;  // per unit
  };
  struct Staging {
    Stream stream = nullptr;
    std::unique_ptr<Memory> memory;
  };

  absl::StatusOr<const std::byte*> StorePack(const DevicePack& pack);
  absl::StatusOr<std::byte*> Reserve(size_t bytes);
  absl::Status Fill(std::byte* to, const Units& units, PackUnits pack);
  absl::StatusOr<Staging*> NextStaging(size_t bytes);
  ThreadPool& Pool();

  Runtime* const runtime_;
  const size_t staging_bytes_;
  uint64_t bytes_ = 0;
  absl::Status first_error_;
  std::unique_ptr<ThreadPool> pool_;  // until Finish
  Staging staging_[2];
  int next_staging_ = 0;
  std::vector<std::unique_ptr<Memory>> memory_;
};

}  // namespace numoe::execution::cuda
