// StepBuffers: all data that changes from step to step, as one block of memory that is copied to the device
// at once.
//
// A step's tables have the same device addresses in every step of a bucket, so that kernels of a captured
// graph find them. Rows beyond the step's tokens are padding: position, token and logit row -1. A step in
// halves has padding after each half, and a HandoverStep for each; a step that is not divided uses the first
// one.
//
// The block contains in this order: HandoverStep [2], tokens, positions, decode positions, sequences,
// logit_rows and block_tables [sequences, stride]. Block tables are last, and only their used part is copied.
// Prefill's tasks are a separate block, for steps that are not captured. One thread, the engine's.
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

/// The sizes on which a captured graph depends: a step fits a bucket that is at least as large.
struct StepBucket {
  int rows = 0;
  int second_half = 0;          // first row of the second half; 0 if the step is not divided
  int blocks_per_sequence = 0;  // stride of the block tables
  bool exact = false;
  int deferred_experts = 0;
  auto operator<=>(const StepBucket&) const = default;
};

/// Returns the smallest bucket for a step: its rows, or the rows of each half, are rounded up to 1, 2, 4 or a
/// multiple of 8, its blocks to a power of two. With two halves it may have more rows than `bounds`.
/// REQUIRES: the step is within the bounds.
StepBucket BucketFor(const StepLayout& layout, const StepBounds& bounds);

class StepBuffers {
 public:
  static absl::StatusOr<StepBuffers> Create(const StepBounds& bounds, Runtime& runtime);
  static uint64_t DeviceBytes(const StepBounds& bounds);

  /// Fills the host's copy. REQUIRES: the previous step has been waited for; the step is within the bounds.
  void Fill(const StepLayout& layout, const AttendSplit& split, const StepBucket& bucket);
  /// Fills in the tasks of all passes, in order. CHECKs that there is room for them.
  void FillTasks(const std::vector<PrefillPass>& passes);
  /// The host's copies that describe the hand-over to the workers, for the step or for each half. They may be
  /// changed until Upload.
  absl::Span<HandoverStep> handovers();
  void Upload(Runtime& runtime, Stream stream);

  /// The tables, beginning with row `first`.
  StepTables tables(int first = 0) const;
  /// The positions of rows that a decode kernel attends for, and -1 for the others, beginning with row
  /// `first`.
  const int32_t* decode_positions(int first = 0) const;
  /// The tasks of pass `pass`.
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
  size_t used_ = 0;                 // bytes to upload
  std::vector<size_t> pass_first_;  // the first task of each pass, then the number of all tasks
};

}  // namespace numoe::execution::cuda
