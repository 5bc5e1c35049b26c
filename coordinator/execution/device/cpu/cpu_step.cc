#include "coordinator/execution/device/cpu/cpu_step.h"

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/execution/device/cpu/cpu_operations.h"
#include "coordinator/execution/device/cpu/cpu_tasks.h"

namespace numoe::execution {
namespace {

std::vector<Rows> LayerRows(const StepLayout& layout) {
  const int rows = layout.rows(), cut = layout.second_half;
  NUMOE_CHECK(cut >= 0 && cut < std::max(rows, 1));
  if (cut == 0) return {{RowSet::kAll, 0, rows}};
  return {{RowSet::kFirstHalf, 0, cut}, {RowSet::kSecondHalf, cut, rows - cut}};
}

}  // namespace

CpuStep::CpuStep(const StepLayout& layout, const CpuParts& parts)
    : layout_(layout),
      parts_(parts),
      layer_rows_(LayerRows(layout)),
      operations_(MakeCpuOperations(layout, parts)) {
  NUMOE_CHECK(!parts.store.measures_only())
      << "a device that only measures has no weights to run a step with";
  NUMOE_CHECK(layout.samples.empty()) << "the CPU device draws no tokens, so a layout must not have samples";
}

absl::Span<float> CpuStep::SpanOf(Rows rows, Tensor tensor) const {
  return absl::MakeSpan(parts_.store.Row(tensor, rows.first),
                        static_cast<size_t>(rows.count) * static_cast<size_t>(tensor.cols));
}

absl::Status CpuStep::Send(const RoutedRows& work, Tensor /*residual*/) {
  NUMOE_CHECK(parts_.experts != nullptr)
      << "ConnectExperts must be called before the first step with routed experts";
  return parts_.experts->Start(
      {.layer = work.layer,
       .tokens = work.rows.count,
       .experts_per_token = work.routes.experts_per_token,
       .deferred_experts = layout_.deferred_experts,
       .batch_invariant = layout_.exact,
       .hidden = SpanOf(work.rows, work.in),
       .experts = parts_.store.RouteExperts(work.routes, work.rows.first, work.rows.count),
       .weights = parts_.store.RouteWeights(work.routes, work.rows.first, work.rows.count)});
}

absl::Status CpuStep::Add(const RoutedRows& work, Tensor residual) {
  return parts_.experts->Finish(SpanOf(work.rows, residual));
}

absl::Status CpuStep::AddDeferred(const RoutedRows& work, Tensor residual) {
  return parts_.experts->FinishDeferred(SpanOf(work.rows, residual));
}

Rows CpuStep::SelectLogitRows(Tensor in, Tensor out) {
  NUMOE_CHECK_EQ(in.cols, out.cols);
  const Rows rows{RowSet::kLogits, 0, static_cast<int>(layout_.logit_rows.size())};
  ForRows(parts_.pool, {0, rows.count}, [&](int r) {
    std::copy_n(parts_.store.Row(in, layout_.logit_rows[static_cast<size_t>(r)]), in.cols,
                parts_.store.Row(out, r));
  });
  return rows;
}

absl::StatusOr<StepOutput> CpuStep::ReadLogits(Rows rows, Tensor logits) {
  return StepOutput{.logits = SpanOf(rows, logits), .drawn = {}};
}

}  // namespace numoe::execution
