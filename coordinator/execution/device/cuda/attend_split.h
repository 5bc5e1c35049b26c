// Which rows of a step attend by which kernel: long runs of one sequence as prefill, the others as decode.
//
// Pure. A row's kernel depends on its own run alone, not on the rest of the batch. Decode kernels skip rows
// whose position is -1, so the split is a second array of positions; prefill kernels take runs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "coordinator/execution/device/cuda/kernels/attention_prefill.h"
#include "coordinator/execution/device/step_layout.h"

namespace numoe::execution::cuda {

struct AttendSplit {
  std::vector<int32_t> decode_positions;  // [tokens] -1: attended by prefill
  std::vector<PrefillRun> runs;
};

/// Runs for which `prefills` holds are prefill.
AttendSplit SplitStep(const StepLayout& layout, const std::function<bool(const PrefillRun&)>& prefills);
/// What of the runs lies in some rows of the step, counted from their first.
std::vector<PrefillRun> RunsIn(const std::vector<PrefillRun>& runs, const RowRange& rows);

}  // namespace numoe::execution::cuda
