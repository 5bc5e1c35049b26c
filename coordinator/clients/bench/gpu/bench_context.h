// BenchContext: what all parts of the GPU's benchmark share: a clock of the device, memory with random
// values, the card's limits and the output of results.
//
// Times are medians over repetitions, measured by CUDA events on the stream. Results are JSON objects:
// strings and whole numbers identify a line, and the other numbers are its results (tests/bench/bench.py).
// Every line names the card and the limits that were measured in the same run. For use by one thread.
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

/// The card's measured limits.
struct GpuLimits {
  double read_gb_per_s = 0;         // a kernel that only reads
  double copy_gb_per_s = 0;         // device to device, bytes read and written
  double to_device_gb_per_s = 0;    // PCIe, from pinned memory
  double from_device_gb_per_s = 0;  // PCIe
  double bf16_tflops = 0;           // a large product of the matrix library
};

/// The sizes of the measurements; a test uses tiny ones.
struct LimitSizes {
  size_t read_bytes = size_t{4} << 30;
  size_t pcie_bytes = size_t{256} << 20;
  int matrix = 8192;  // rows, columns and depth
  int repetitions = 20;
};

/// Returns the median, or the upper one of two in the middle. REQUIRES: there are values.
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

  /// Returns the median time in seconds of what `body` enqueues; it gets the number of the repetition.
  /// `before` is not timed.
  absl::StatusOr<double> Seconds(absl::FunctionRef<void(int)> body, absl::FunctionRef<void(int)> before);
  absl::StatusOr<double> Seconds(absl::FunctionRef<void(int)> body) {
    return Seconds(body, [](int) {});
  }
  /// Returns the time in seconds of one call of `body`, when `launches` calls run as one graph, like the
  /// layers of a step.
  absl::StatusOr<double> GraphSeconds(int launches, absl::FunctionRef<void(int)> body);

  /// Returns device memory with random BF16 values between 2^-8 and 2^-6, of either sign; read as FP8 codes
  /// or nibbles it is random as well.
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> Random(size_t bytes);
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> Zeros(size_t bytes);
  template <typename T>
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> Upload(const std::vector<T>& values) {
    return UploadBytes(values.data(), values.size() * sizeof(T));
  }

  /// Reports the line with the card and with the shares of the limits that `bytes` and `flops` in `seconds`
  /// are.
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

/// Returns the address of device memory as a pointer to values of T.
template <typename T>
T* As(const std::unique_ptr<execution::cuda::Memory>& memory) {
  return reinterpret_cast<T*>(memory->device());
}

}  // namespace numoe::clients
