// LogitReader: brings a step's rows of logits to the host, except those that a token was drawn from.
//
// Rows that are left to the host come in stretches, one behind the other. The pinned memory that they come to
// is the reader's; it has room for the largest step. One thread, the engine's.
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
  /// After the store's cache was reserved. All arguments outlive the reader.
  static absl::StatusOr<std::unique_ptr<LogitReader>> Create(const CudaStore& store, SamplingTables& sampling,
                                                             Runtime& runtime, Stream stream);

  /// Brings what was drawn from the first `rows` rows of `logits`, and the other rows; waits for everything
  /// in the stream.
  absl::Status Read(Tensor logits, int rows);
  /// What the last Read brought; valid until the next one.
  StepOutput output();

 private:
  LogitReader(const CudaStore& store, SamplingTables& sampling, Runtime& runtime, Stream stream)
      : store_(store), sampling_(sampling), runtime_(runtime), stream_(stream) {}

  const CudaStore& store_;
  SamplingTables& sampling_;
  Runtime& runtime_;
  const Stream stream_;
  std::unique_ptr<Memory> host_;  // pinned
  size_t values_ = 0;             // that the last Read brought
};

}  // namespace numoe::execution::cuda
