// RowCutter: the one rule by which the outputs of matrices are cut into tasks for a pool's threads.
//
// Tasks are claimed in order. A task is as large as its user's limit while much is left, because large tasks
// are claimed seldom and stream; it is at most half of what each thread still has to do, so that the last
// ones are small and threads finish together (guided self-scheduling, Polychronopoulos and Kuck 1987; a
// single thread waits for nobody); and it is not so small that claiming it costs more than computing it,
// unless threads would have none. A task is whole units, at least one, so every output has one owner and
// results do not depend on the cut.
//   The worker and the CPU device differ in the numbers only. A worker's task has one expert's or all
// experts' weights for 128 outputs, which bounds its sums; the CPU device's is bounded by its bytes, because
// its matrices are of different widths and formats. A value for one run of tasks; not thread-safe.
#pragma once

#include <cstddef>

#include "common/kernels/kernel_types.h"

namespace numoe {

/// Costs are bytes or weights, or whatever the work of one run is proportional to.
struct CutLimits {
  size_t task_cost_max = 0;
  size_t task_cost_min = 0;
};

/// Tasks of a matrix are multiples of `rows` outputs, of which each costs `cost`.
struct CutUnit {
  int rows = kPanelRows;
  size_t cost = 0;
};

class RowCutter {
 public:
  /// `cost` is that of all that will be cut; what is not a whole unit counts as one. REQUIRES: threads >= 1.
  RowCutter(const CutLimits& limits, size_t cost, int threads);

  /// The end of the task that begins with output `begin` of a matrix of `rows`: a whole number of units after
  /// it, or `rows`. Each call counts as cut what it returns; matrices may take turns.
  /// REQUIRES: 0 <= begin < rows, begin % unit.rows == 0, unit.cost > 0.
  int NextEnd(int begin, int rows, const CutUnit& unit);

 private:
  const CutLimits limits_;
  const size_t shares_;  // of what is left, of which a task is at most one; 0: of any size
  size_t left_;
  size_t unit_cost_ = 0;  // that the units below are of
  size_t units_ = 0;      // of the next task
  size_t units_min_ = 0;
};

}  // namespace numoe
