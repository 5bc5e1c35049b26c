// How the CPU device splits its work over the rows of a step.
//
// Every operation is divided by output, so a row's result never depends on the number of threads. Small runs
// of rows are one task, because starting a task costs about a microsecond.
#pragma once

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "common/threading/thread_pool.h"
#include "coordinator/execution/device/cpu/attend_plan.h"

namespace numoe::execution {

/// Rows of one task of the operations that work row by row.
inline constexpr int kTaskRows = 8;

inline int TasksFor(int rows, int per_task) { return (rows + per_task - 1) / per_task; }

/// Calls body(row) for each row of `run`, in tasks of kTaskRows rows on the pool.
inline void ForRows(ThreadPool& pool, TokenRun run, absl::FunctionRef<void(int row)> body) {
  pool.Run(TasksFor(run.tokens(), kTaskRows), [&](int task, int) {
    const int begin = run.begin + task * kTaskRows;
    for (int row = begin; row < std::min(begin + kTaskRows, run.end); ++row) body(row);
  });
}

}  // namespace numoe::execution
