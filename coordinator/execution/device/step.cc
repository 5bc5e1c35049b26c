#include "coordinator/execution/device/step.h"

#include "common/base/status.h"

namespace numoe::execution {

StagedExperts Step::StageExperts(Rows rows, LayerId layer, Tensor in, RouteTable routes) {
  NUMOE_CHECK_EQ(staged_, 0) << "a staged call was not sent";
  NUMOE_CHECK_EQ(deferred_, 0) << "deferred experts must be added before the next call is staged";
  NUMOE_CHECK(rows.set != RowSet::kLogits && rows.count > 0);
  const RoutedRows work{.rows = rows, .layer = layer, .in = in, .routes = routes};
  Stage(work);
  ++staged_;
  return StagedExperts(work);
}

absl::StatusOr<SentExperts> Step::SendExperts(StagedExperts staged, Tensor residual) {
  NUMOE_CHECK_EQ(sent_, 0) << "at most one layer call may be in flight";
  NUMOE_CHECK_EQ(residual.cols, staged.work().in.cols);
  --staged_;
  RETURN_IF_ERROR(Send(staged.work(), residual));
  ++sent_;
  return SentExperts(staged.work());
}

absl::StatusOr<std::optional<DeferredExperts>> Step::AddExperts(SentExperts sent, Tensor residual) {
  NUMOE_CHECK_EQ(deferred_, 0) << "the deferred experts of the previous call were not added";
  --sent_;
  RETURN_IF_ERROR(Add(sent.work(), residual));
  std::optional<DeferredExperts> deferred;
  if (defers()) {
    ++deferred_;
    deferred = DeferredExperts(sent.work());
  }
  return deferred;
}

absl::Status Step::AddDeferredExperts(DeferredExperts deferred, Tensor residual) {
  --deferred_;
  return AddDeferred(deferred.work(), residual);
}

}  // namespace numoe::execution
