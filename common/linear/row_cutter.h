// RowCutter: divides the outputs of matrices into tasks for a pool's threads. All code uses this one rule.
//
// Tasks are claimed in order. While much is left, a task is as large as its user's limit, because large tasks
// are claimed seldom and read memory sequentially. A task is at most half of what each thread still has to
// do, so that the last tasks are small and threads finish at about the same time (guided self-scheduling,
// Polychronopoulos and Kuck 1987; a single thread has no other to wait for). And it is not so small that
// claiming it costs more than computing it, unless threads would have no task then. A task consists of whole
// units, at least one. So every output is computed by one task, and results do not depend on the division.
//
// The worker and the CPU device differ only in the numbers. A worker's task has one expert's or all experts'
// weights for 128 outputs, which bounds its sums. The CPU device's task is bounded by its bytes, because its
// matrices have different widths and formats. A value for one run of tasks; not thread-safe.
#pragma once

#include <cstddef>

#include "common/kernels/kernel_types.h"

namespace numoe {

/// Costs are bytes or weights, or any number to which the work of a run is proportional.
struct CutLimits {
  size_t task_cost_max = 0;
  size_t task_cost_min = 0;
};

/// Tasks of a matrix are multiples of `rows` outputs; `cost` is the cost of `rows` outputs.
struct CutUnit {
  int rows = kPanelRows;
  size_t cost = 0;
};

class RowCutter {
 public:
  /// `cost` is the cost of everything that will be divided; a part of a unit counts as a whole one. REQUIRES:
  /// threads >= 1.
  RowCutter(const CutLimits& limits, size_t cost, int threads);

  /// Returns the end of the task that begins with output `begin` of a matrix with `rows` outputs: a whole
  /// number of units after `begin`, or `rows`. The outputs up to there count as done. Calls for several
  /// matrices may alternate. REQUIRES: 0 <= begin < rows, begin % unit.rows == 0, unit.cost > 0.
  int NextEnd(int begin, int rows, const CutUnit& unit);

 private:
  const CutLimits limits_;
  const size_t shares_;   // a task costs at most left_ / shares_; 0 means no limit
  size_t left_;           // the cost of the outputs that no task has yet
  size_t unit_cost_ = 0;  // the cost of a unit, for the two numbers below
  size_t units_ = 0;      // in the next task
  size_t units_min_ = 0;
};

}  // namespace numoe
