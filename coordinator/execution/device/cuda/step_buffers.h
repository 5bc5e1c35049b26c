// StepBuffers: what changes from step to step, as one block of memory that is copied to the device in one
// piece.
//
// A step's tables lie at the same device addresses in every step of a bucket, so that kernels captured in a
// graph find them again. Rows beyond the step's tokens are padding: position, token and logit row -1. A step
// in halves has padding behind each of them, and a hand-over for each; a whole one uses the first.
//
// The block has in this order: HandoverStep [2], tokens, positions, decode positions, sequences, logit_rows
// and block_tables [sequences, stride]. Block tables come last and are copied only as far as they are used.
// Prefill's tasks are a block of their own, of steps that are not captured. One thread, the engine's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "coordinator/execution/device/cuda/attend_split.h"
#include "coordinator/execution/device/cuda/kernels/handover.h"
#include "coordinator/execution/device/cuda/kernels/step_tables.h"
#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/device/step_layout.h"

namespace numoe::execution::cuda {

struct StepBounds {
  int rows = 0;                 // tokens of the largest step
  int sequences = 0;            // in one step
  int blocks_per_sequence = 0;  // of the longest context
};

/// The sizes that a captured graph depends on: a step fits a bucket that is as large or larger.
struct StepBucket {
  int rows = 0;
  int second_half = 0;          // its first row; 0: the step is whole
  int blocks_per_sequence = 0;  // stride of the block tables
  bool exact = false;
  int deferred_experts = 0;
  auto operator<=>(const StepBucket&) const = default;
};

/// The smallest bucket for a step: rows, or each half's, are rounded up to 1, 2, 4, then multiples of 8,
/// blocks to a power of two. With two halves it may have more rows than `bounds`. REQUIRES: the step is
/// within them.
StepBucket BucketFor(const StepLayout& layout, const StepBounds& bounds);

class StepBuffers {
 public:
  static absl::StatusOr<StepBuffers> Create(const StepBounds& bounds, Runtime& runtime);
  static uint64_t DeviceBytes(const StepBounds& bounds);

  /// Fills the host's half. REQUIRES: the step before has been waited for; the step is within the bounds.
  void Fill(const StepLayout& layout, const AttendSplit& split, const StepBucket& bucket);
  /// Of all passes, in order; at most as many as there is room for.
  void FillTasks(const std::vector<PrefillPass>& passes);
  /// Where the experts' hand-over is described, on the host, until Upload: of the step, or of each half.
  absl::Span<HandoverStep> handovers();
  void Upload(Runtime& runtime, Stream stream);

  /// From row `first` on.
  StepTables tables(int first = 0) const;
  /// positions where a decode kernel attends, -1 elsewhere
  const int32_t* decode_positions(int first = 0) const;
  /// Of pass `pass`.
  const PrefillTask* tasks(size_t pass) const;
  const int32_t* logit_rows() const;
  const HandoverStep* device_handover(size_t half = 0) const;

 private:
  explicit StepBuffers(const StepBounds& bounds) : bounds_(bounds) {}
  int32_t* Host(size_t offset) const { return reinterpret_cast<int32_t*>(host_->host() + offset); }
  const int32_t* Device(size_t offset) const {
    return reinterpret_cast<const int32_t*>(device_->device() + offset);
  }

  StepBounds bounds_;
  std::unique_ptr<Memory> host_;
  std::unique_ptr<Memory> device_;
  std::unique_ptr<Memory> host_tasks_;
  std::unique_ptr<Memory> device_tasks_;
  StepBucket bucket_;
  size_t used_ = 0;                 // bytes
  std::vector<size_t> pass_first_;  // task of each pass, and one past the last
};

}  // namespace numoe::execution::cuda
