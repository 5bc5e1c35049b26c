#include <algorithm>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/attention_prefill.h"

namespace numoe::execution::cuda {
namespace {

void AddTasks(const PrefillRun& run, const PrefillStretch& stretch, PrefillPass& pass) {
  for (int begin = 0; begin < run.rows; begin += kPrefillTaskRows) {
    const int rows = std::min(kPrefillTaskRows, run.rows - begin);
    const int end_position = run.position + begin + rows;
    if (end_position <= stretch.begin) continue;  // these rows precede the whole stretch
    pass.tasks.push_back({.row = run.row + begin,
                          .rows = rows,
                          .sequence = run.sequence,
                          .position = run.position + begin,
                          .key_begin = stretch.begin,
                          .key_end = std::min(stretch.end, end_position),
                          .key_row = stretch.key_row,
                          .first = stretch.begin == 0,
                          .last = stretch.end >= end_position});
  }
}

}  // namespace

std::vector<PrefillPass> PlanPrefill(const std::vector<PrefillRun>& runs, int key_rows_max) {
  std::vector<PrefillPass> passes;
  const auto room = [&] {
    if (passes.empty()) return 0;
    return key_rows_max - passes.back().key_rows;
  };
  for (const PrefillRun& run : runs) {
    NUMOE_CHECK(run.rows > 0 && run.position >= 0);
    const int context = run.position + run.rows;
    for (int begin = 0; begin < context;) {
      if (key_rows_max > 0 ? room() == 0 : passes.empty()) passes.emplace_back();
      PrefillPass& pass = passes.back();
      const int taken = key_rows_max > 0 ? std::min(room(), context - begin) : context;
      const PrefillStretch stretch{run.sequence, begin, begin + taken, pass.key_rows};
      if (key_rows_max > 0) {
        pass.stretches.push_back(stretch);
        pass.key_rows += taken;
      }
      AddTasks(run, stretch, pass);
      begin += taken;
    }
  }
  for (PrefillPass& pass : passes) {
    std::stable_sort(pass.tasks.begin(), pass.tasks.end(), [](const PrefillTask& a, const PrefillTask& b) {
      return a.key_end - a.key_begin > b.key_end - b.key_begin;
    });
  }
  return passes;
}

bool ExpandsLatents(const PrefillRun& run, const LatentRunShape& shape) {
  if (run.rows < kExpandedRowsMin) return false;
  const double context = run.position + run.rows;
  const double pairs =
      (run.position + 1 + context) / 2 * run.rows;  // pairs of a row and a position that it attends to
  const double absorbed =
      1.0 * run.rows * (shape.nope + shape.value) * shape.latent + pairs * (2 * shape.latent + shape.rope);
  const double expanded =
      context * (shape.nope + shape.value) * shape.latent + pairs * (shape.nope + shape.rope + shape.value);
  return expanded < absorbed;
}

}  // namespace numoe::execution::cuda
