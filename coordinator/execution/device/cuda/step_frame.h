// StepFrame: how a step is laid out on a GPU: its bucket, where its rows are, and how they attend.
//
// A pure plan, made before anything is enqueued. In a bucket rows are padded: each half by itself, so the
// second half's first row is the bucket's and not the layout's. One thread, the engine's.
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

/// Rows of the step that operations run on together.
struct PartRows {
  Rows rows;                            // with padding
  int tokens = 0;                       // without
  int decode_rows = 0;                  // that attend by a decode kernel; they need not be the first
  size_t pass_begin = 0, pass_end = 0;  // of the others, in the frame's passes
};

struct StepFrame {
  StepBucket bucket;
  int logit_rows = 0;
  std::array<PartRows, 3> parts;  // by RowSet, of kAll and the halves, where there are any
  AttendSplit split;
  std::vector<PrefillPass> passes;  // of all parts
  std::vector<Rows> layer_rows;     // what the layers run on: all rows, or both halves

  bool halves() const { return bucket.second_half > 0; }
  /// REQUIRES: the rows are of this step, and no rows of logits.
  const PartRows& part(Rows rows) const;
};

/// `bucket` has at least the layout's rows, and its halves at least the layout's halves. `prefills` says
/// which runs attend by a prefill kernel; `key_rows_max` is PlanPrefill's. A row's kernel is that of its
/// whole run also where the run is cut in halves, so no bit depends on the cut.
StepFrame PlanFrame(const StepLayout& layout, const StepBucket& bucket,
                    const std::function<bool(const PrefillRun&)>& prefills, int key_rows_max);

/// For logs and test failures.
std::string Describe(const StepFrame& frame);

}  // namespace numoe::execution::cuda
