// LogitReader: copies a step's rows of logits to the host, except those from which the device drew a token.
//
// Consecutive rows that are left to the host are copied together; all of them are contiguous on the host. The
// reader owns the pinned memory for them, which has room for the largest step. One thread, the engine's.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/execution/device/cuda/cuda_store.h"
#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/device/cuda/sampling_tables.h"
#include "coordinator/execution/device/step.h"

namespace numoe::execution::cuda {

class LogitReader {
 public:
  /// REQUIRES: the store's cache was reserved. All arguments must outlive the reader.
  static absl::StatusOr<std::unique_ptr<LogitReader>> Create(const CudaStore& store, SamplingTables& sampling,
                                                             Runtime& runtime, Stream stream);

  /// Copies the tokens that were drawn from the first `rows` rows of `logits`, and the logits of the other
  /// rows; waits for all work in the stream.
  absl::Status Read(Tensor logits, int rows);
  /// The results of the last Read; valid until the next one.
  StepOutput output();

 private:
  LogitReader(const CudaStore& store, SamplingTables& sampling, Runtime& runtime, Stream stream)
      : store_(store), sampling_(sampling), runtime_(runtime), stream_(stream) {}

  const CudaStore& store_;
  SamplingTables& sampling_;
  Runtime& runtime_;
  const Stream stream_;
  std::unique_ptr<Memory> host_;  // pinned
  size_t values_ = 0;             // logits that the last Read copied
};

}  // namespace numoe::execution::cuda
