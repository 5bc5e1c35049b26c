// SamplingTables: tables in the device's memory that say how tokens are drawn from a step's rows of logits,
// and the drawn tokens.
//
// It converts SampleSpecs to the arguments of kernels/sampling.h, and its results back. The tables have the
// same addresses in every step, so that a captured graph finds them; rows from which no token is drawn are
// padding. Only the used part of the tables is copied. A row is left to the host if
//   - it has no spec: probabilities of a prompt, or a caller that needs logits,
//   - a request biases one token twice, or its temperature has no reciprocal in fp32,
//   - there is no room (sampling_sizes.h) for its mask or its rules.
// Spans of the step's specs are read in Fill only. One thread, the engine's.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/execution/device/cuda/kernels/sampling.h"
#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/device/cuda/sampling_sizes.h"
#include "coordinator/execution/device/step_layout.h"

namespace numoe::execution::cuda {

class SamplingTables {
 public:
  static absl::StatusOr<std::unique_ptr<SamplingTables>> Create(const SamplingSizes& sizes, Runtime& runtime);

  /// Fills the host's copy for `rows` rows of logits, which begin with the layout's rows. REQUIRES: the
  /// previous step has been waited for.
  void Fill(const StepLayout& layout, int rows);
  void Upload(Runtime& runtime, Stream stream) const;
  /// `logits` is [rows, vocab], as in the sizes.
  void EnqueueDraw(const float* logits, Stream stream) const;
  void Download(Runtime& runtime, Stream stream) const;
  /// Returns the drawn tokens [logit rows], with nullopt for rows that the host draws from. REQUIRES: the
  /// stream has been waited for. Valid until the next Fill.
  absl::Span<const DrawnRow> Read();

  /// Whether the device draws from row `row` of the step's logits.
  bool OnDevice(size_t row) const { return row < on_device_.size() && on_device_[row]; }
  bool any() const { return any_; }

 private:
  explicit SamplingTables(const SamplingSizes& sizes) : sizes_(sizes) {}
  template <typename T>
  T* Host(uint64_t offset) const {
    return reinterpret_cast<T*>(tables_on_host_->host() + offset);
  }
  template <typename T>
  const T* Device(uint64_t offset) const {
    return reinterpret_cast<const T*>(tables_->device() + offset);
  }
  bool Add(const SampleSpec& spec, SamplingRow& row);
  bool AddShape(const SamplingChoice& choice, SamplingRow& row);

  const SamplingSizes sizes_;
  std::unique_ptr<Memory> tables_on_host_, tables_;
  std::unique_ptr<Memory> shaped_;
  std::unique_ptr<Memory> sampled_on_host_, sampled_;

  // The current step.
  int rows_ = 0;
  int rules_ = 0;  // used so far
  int slots_ = 0;  // used so far
  bool any_ = false;
  std::vector<bool> on_device_;  // [logit rows], or empty if the device draws nothing
  std::vector<DrawnRow> drawn_;
};

}  // namespace numoe::execution::cuda
