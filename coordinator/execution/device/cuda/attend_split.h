// Chooses the attention kernel for each row of a step: prefill kernels for long runs of one sequence, decode
// kernels for the other rows.
//
// Pure. A row's kernel depends only on its own run, not on the rest of the batch. Decode kernels skip rows
// whose position is -1, so their rows are given as a second array of positions; prefill kernels take runs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "coordinator/execution/device/cuda/kernels/attention_prefill.h"
#include "coordinator/execution/device/step_layout.h"

namespace numoe::execution::cuda {

struct AttendSplit {
  std::vector<int32_t> decode_positions;  // [tokens], -1 for rows that a prefill kernel attends for
  std::vector<PrefillRun> runs;
};

/// Divides a step; runs for which `prefills` returns true use a prefill kernel.
AttendSplit SplitStep(const StepLayout& layout, const std::function<bool(const PrefillRun&)>& prefills);
/// Returns the parts of the runs that are within `rows`, with row numbers relative to the first of `rows`.
std::vector<PrefillRun> RunsIn(const std::vector<PrefillRun>& runs, const RowRange& rows);

}  // namespace numoe::execution::cuda
