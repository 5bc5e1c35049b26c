// StepFrame: the plan of a step on a GPU: its bucket, the places of its rows, and their attention kernels.
//
// It is a pure plan, made before anything is enqueued. Rows are padded to the bucket's size, each half
// separately, so the first row of the second half is that of the bucket, not that of the layout. One thread,
// the engine's.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "coordinator/execution/device/cuda/attend_split.h"
#include "coordinator/execution/device/cuda/step_buffers.h"
#include "coordinator/execution/device/operations.h"

namespace numoe::execution::cuda {

/// Rows of the step on which operations run together.
struct PartRows {
  Rows rows;                            // with padding
  int tokens = 0;                       // rows without padding
  int decode_rows = 0;                  // rows that a decode kernel attends for; they need not be the first
  size_t pass_begin = 0, pass_end = 0;  // the frame's passes that attend for the other rows
};

struct StepFrame {
  StepBucket bucket;
  int logit_rows = 0;
  std::array<PartRows, 3> parts;  // by RowSet: kAll and the halves, if there are any
  AttendSplit split;
  std::vector<PrefillPass> passes;  // for all parts
  std::vector<Rows> layer_rows;     // the rows on which the layers run: all rows, or both halves

  bool halves() const { return bucket.second_half > 0; }
  /// REQUIRES: the rows belong to this step and are not rows of logits.
  const PartRows& part(Rows rows) const;
};

/// `bucket` has at least the layout's rows, and its halves at least the rows of the layout's halves.
/// `prefills` returns true for runs that use a prefill kernel; `key_rows_max` is the argument of PlanPrefill.
/// The kernel of a row is chosen for its whole run, even if the run is divided between the halves, so no bit
/// depends on the division.
StepFrame PlanFrame(const StepLayout& layout, const StepBucket& bucket,
                    const std::function<bool(const PrefillRun&)>& prefills, int key_rows_max);

/// For logs and test failures.
std::string Describe(const StepFrame& frame);

}  // namespace numoe::execution::cuda
