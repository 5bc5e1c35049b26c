#include "coordinator/execution/device/cuda/attend_split.h"

#include <algorithm>

namespace numoe::execution::cuda {

AttendSplit SplitStep(const StepLayout& layout, const std::function<bool(const PrefillRun&)>& prefills) {
  AttendSplit split{.decode_positions = layout.positions};
  const int tokens = static_cast<int>(layout.tokens.size());
  for (int begin = 0, end = 0; begin < tokens; begin = end) {
    const auto first = static_cast<size_t>(begin);
    const auto continues = [&](int row) {
      const auto at = static_cast<size_t>(row);
      return layout.sequences[at] == layout.sequences[first] &&
             layout.positions[at] == layout.positions[first] + row - begin;
    };
    for (end = begin + 1; end < tokens && continues(end);) ++end;
    const PrefillRun run{.row = begin,
                         .rows = end - begin,
                         .sequence = layout.sequences[first],
                         .position = layout.positions[first]};
    if (!prefills(run)) continue;
    split.runs.push_back(run);
    for (int row = begin; row < end; ++row) split.decode_positions[static_cast<size_t>(row)] = -1;
  }
  return split;
}

std::vector<PrefillRun> RunsIn(const std::vector<PrefillRun>& runs, const RowRange& rows) {
  std::vector<PrefillRun> inside;
  for (const PrefillRun& run : runs) {
    const int begin = std::max(run.row, rows.begin), end = std::min(run.row + run.rows, rows.end);
    if (begin >= end) continue;
    inside.push_back({.row = begin - rows.begin,
                      .rows = end - begin,
                      .sequence = run.sequence,
                      .position = run.position + begin - run.row});
  }
  return inside;
}

}  // namespace numoe::execution::cuda
