// What all parts of the GPU's benchmark share: a clock of the device, memory with random values, the card's
// limits and where results go.
//
// Times are medians over repetitions of what CUDA events measure on the stream. Results are JSON objects:
// strings and whole numbers identify a line, the other numbers are its figures (tests/bench/bench.py). Every
// line names the card and the limits that were measured in the same run. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "coordinator/execution/device/cuda/runtime.h"
#include "nlohmann/json.hpp"

namespace numoe::clients {

/// What the card does at most, measured.
struct GpuLimits {
  double read_gb_per_s = 0;         // a kernel that only reads
  double copy_gb_per_s = 0;         // device to device, bytes read and written
  double to_device_gb_per_s = 0;    // PCIe, from pinned memory
  double from_device_gb_per_s = 0;  // PCIe
  double bf16_tflops = 0;           // a large product of the matrix library
};

/// How much of everything is measured; a test takes next to nothing.
struct LimitSizes {
  size_t read_bytes = size_t{4} << 30;
  size_t pcie_bytes = size_t{256} << 20;
  int matrix = 8192;  // rows, columns and depth
  int repetitions = 20;
};

/// REQUIRES: there are values. The upper one of two in the middle.
double Median(std::vector<double> values);

using BenchReport = std::function<void(const nlohmann::ordered_json&)>;

class BenchContext {
 public:
  /// Measures the limits. `runtime` outlives the context.
  static absl::StatusOr<BenchContext> Create(execution::cuda::Runtime& runtime, const LimitSizes& sizes,
                                             BenchReport report);

  execution::cuda::Runtime& runtime() const { return runtime_; }
  execution::cuda::Stream stream() const { return stream_; }
  const GpuLimits& limits() const { return limits_; }
  int repetitions() const { return sizes_.repetitions; }

  /// Median seconds of what `body` enqueues; `body` gets the number of the repetition. `before` is not timed.
  absl::StatusOr<double> Seconds(absl::FunctionRef<void(int)> body, absl::FunctionRef<void(int)> before);
  absl::StatusOr<double> Seconds(absl::FunctionRef<void(int)> body) {
    return Seconds(body, [](int) {});
  }
  /// Seconds of one of `launches` calls of `body` that run as one graph, as a step's layers do.
  absl::StatusOr<double> GraphSeconds(int launches, absl::FunctionRef<void(int)> body);

  /// Device memory of BF16 values between 2^-8 and 2^-6, of either sign; FP8 codes and nibbles are as random.
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> Random(size_t bytes);
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> Zeros(size_t bytes);
  template <typename T>
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> Upload(const std::vector<T>& values) {
    return UploadBytes(values.data(), values.size() * sizeof(T));
  }

  /// Adds what the line belongs to, and its shares of the limits: of `bytes` and `flops` over `seconds`.
  void Report(nlohmann::ordered_json line, double seconds, double bytes, double flops) const;

 private:
  BenchContext(execution::cuda::Runtime& runtime, const LimitSizes& sizes, BenchReport report)
      : runtime_(runtime), sizes_(sizes), report_(std::move(report)) {}
  absl::Status MeasureLimits();
  absl::Status MeasurePcie();
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> UploadBytes(const void* values, size_t bytes);

  execution::cuda::Runtime& runtime_;
  LimitSizes sizes_;
  BenchReport report_;
  execution::cuda::Stream stream_ = nullptr;
  std::unique_ptr<execution::cuda::Timestamp> first_, last_;
  GpuLimits limits_;
};

/// A part's address as what lies there.
template <typename T>
T* As(const std::unique_ptr<execution::cuda::Memory>& memory) {
  return reinterpret_cast<T*>(memory->device());
}

}  // namespace numoe::clients
