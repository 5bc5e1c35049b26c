#include "common/linear/row_cutter.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe {
namespace {

constexpr size_t kSharesPerThread = 2;

}  // namespace

RowCutter::RowCutter(const CutLimits& limits, size_t cost, int threads)
    : task_cost_max_(limits.task_cost_max),
      task_cost_min_(std::min(
          {limits.task_cost_min, limits.task_cost_max, cost / static_cast<size_t>(std::max(threads, 1))})),
      shares_(kSharesPerThread * static_cast<size_t>(threads)),
      left_(cost) {
  NUMOE_CHECK_GE(threads, 1);
}

size_t RowCutter::TaskCost() const {
  if (left_ >= task_cost_max_ * shares_) return task_cost_max_;  // spares most tasks a division
  return std::max(task_cost_min_, left_ / shares_);
}

int RowCutter::NextEnd(int begin, int rows, const CutUnit& unit) {
  NUMOE_DCHECK(0 <= begin && begin < rows && begin % unit.rows == 0) << begin << " of " << rows;
  NUMOE_DCHECK(unit.cost > 0);
  const auto units_left = static_cast<size_t>((rows - begin + unit.rows - 1) / unit.rows);
  const size_t units = std::clamp<size_t>(TaskCost() / unit.cost, 1, units_left);
  left_ -= std::min(left_, units * unit.cost);
  return units == units_left ? rows : begin + static_cast<int>(units) * unit.rows;
}

}  // namespace numoe
