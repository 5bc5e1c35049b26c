#include "coordinator/execution/device/cuda/step_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace numoe::execution::cuda {
namespace {

// Returns the layout's tokens of a part.
RowRange TokensOf(const StepLayout& layout, RowSet set) {
  return {.begin = set == RowSet::kSecondHalf ? layout.second_half : 0,
          .end = set == RowSet::kFirstHalf ? layout.second_half : layout.rows()};
}

PartRows PlanPart(RowSet set, const StepLayout& layout, const StepBucket& bucket) {
  const int second = bucket.second_half;
  Rows rows{.set = set, .first = 0, .count = bucket.rows};
  if (set == RowSet::kFirstHalf) rows.count = second;
  if (set == RowSet::kSecondHalf) rows = {set, second, bucket.rows - second};
  return {.rows = rows, .tokens = TokensOf(layout, set).rows()};
}

}  // namespace

const PartRows& StepFrame::part(Rows rows) const {
  NUMOE_CHECK(rows.set != RowSet::kLogits) << "rows of logits do not belong to the layers";
  const PartRows& part = parts[static_cast<size_t>(rows.set)];
  NUMOE_CHECK(part.rows.count == rows.count && part.rows.first == rows.first) << "rows of another step";
  return part;
}

StepFrame PlanFrame(const StepLayout& layout, const StepBucket& bucket,
                    const std::function<bool(const PrefillRun&)>& prefills, int key_rows_max) {
  NUMOE_CHECK_GE(bucket.rows, layout.rows());
  StepFrame frame{.bucket = bucket,
                  .logit_rows = static_cast<int>(layout.logit_rows.size()),
                  .parts = {},
                  .split = SplitStep(layout, prefills),
                  .passes = {},
                  .layer_rows = {}};
  frame.parts[0] = PlanPart(RowSet::kAll, layout, bucket);
  for (const RowSet set : {RowSet::kAll, RowSet::kFirstHalf, RowSet::kSecondHalf}) {
    if ((set == RowSet::kAll) == frame.halves()) continue;
    PartRows part = PlanPart(set, layout, bucket);
    NUMOE_CHECK_GE(part.rows.count, part.tokens);
    const RowRange tokens = TokensOf(layout, set);
    const auto positions =
        absl::MakeConstSpan(frame.split.decode_positions)
            .subspan(static_cast<size_t>(tokens.begin), static_cast<size_t>(tokens.rows()));
    part.decode_rows = static_cast<int>(
        std::count_if(positions.begin(), positions.end(), [](int32_t position) { return position >= 0; }));
    part.pass_begin = frame.passes.size();
    std::vector<PrefillPass> passes = PlanPrefill(RunsIn(frame.split.runs, tokens), key_rows_max);
    std::move(passes.begin(), passes.end(), std::back_inserter(frame.passes));
    part.pass_end = frame.passes.size();
    frame.parts[static_cast<size_t>(set)] = part;
    frame.layer_rows.push_back(part.rows);
  }
  return frame;
}

std::string Describe(const StepFrame& frame) {
  std::string text = fmt::format("bucket of {} rows, {} logit rows", frame.bucket.rows, frame.logit_rows);
  for (const PartRows& part : frame.parts) {
    if (part.rows.count == 0) continue;
    absl::StrAppend(&text, fmt::format("; rows [{}, {}): {} tokens, {} decode rows, {} prefill passes",
                                       part.rows.first, part.rows.first + part.rows.count, part.tokens,
                                       part.decode_rows, part.pass_end - part.pass_begin));
  }
  return text;
}

}  // namespace numoe::execution::cuda
