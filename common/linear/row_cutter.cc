#include "common/linear/row_cutter.h"

#include <algorithm>
#include <cstdint>

#include "common/base/check.h"

namespace numoe {
namespace {

constexpr size_t kSharesPerThread = 2;

}  // namespace

RowCutter::RowCutter(const CutLimits& limits, size_t cost, int threads)
    : limits_({.task_cost_max = limits.task_cost_max,
               .task_cost_min = std::min({limits.task_cost_min, limits.task_cost_max,
                                          cost / static_cast<size_t>(std::max(threads, 1))})}),
      shares_(threads > 1 ? kSharesPerThread * static_cast<size_t>(threads) : 0),
      left_(cost) {
  NUMOE_CHECK_GE(threads, 1);
}

int RowCutter::NextEnd(int begin, int rows, const CutUnit& unit) {
  NUMOE_DCHECK(0 <= begin && begin < rows && begin % unit.rows == 0) << begin << " of " << rows;
  NUMOE_DCHECK(unit.cost > 0);
  if (unit.cost != unit_cost_) {
    unit_cost_ = unit.cost;
    units_ = std::max<size_t>(1, limits_.task_cost_max / unit.cost);
    units_min_ = std::max<size_t>(1, limits_.task_cost_min / unit.cost);
  }
  // Tasks of equal units only become smaller, so a comparison is enough, and most tasks need no division.
  while (units_ > units_min_ && units_ * unit.cost * shares_ > left_) --units_;
  const int64_t end = begin + static_cast<int64_t>(units_) * unit.rows;
  const int64_t units =
      end < rows ? static_cast<int64_t>(units_) : (rows - begin + unit.rows - 1) / unit.rows;
  left_ -= std::min(left_, static_cast<size_t>(units) * unit.cost);
  return static_cast<int>(std::min<int64_t>(end, rows));
}

}  // namespace numoe
