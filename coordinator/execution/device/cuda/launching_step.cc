#include "coordinator/execution/device/cuda/launching_step.h"

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/elementwise.h"

namespace numoe::execution::cuda {

Rows LaunchingStep::SelectRows(int count, Tensor in, Tensor out) const {
  NUMOE_CHECK_EQ(in.cols, out.cols);
  NUMOE_CHECK_LE(count, parts_.store.tensor(out).rows);
  LaunchSelectRows({.in = memory_.Data<const float>(0, in),
                    .index = parts_.buffers.logit_rows(),
                    .out = memory_.Data<float>(0, out),
                    .rows = count,
                    .row_bytes = int64_t{in.cols} * static_cast<int64_t>(sizeof(float))},
                   parts_.stream);
  return {RowSet::kLogits, 0, count};
}

RoutedCall LaunchingStep::CallOf(const RoutedRows& work) const {
  const CudaStore::StoredRoutes& stored = parts_.store.routes(work.routes);
  const int64_t entry = int64_t{work.rows.first} * work.routes.experts_per_token;
  return {.layer = work.layer,
          .first = work.rows.first,
          .rows = work.rows.count,
          .tokens = frame_.part(work.rows).tokens,
          .hidden_size = work.in.cols,
          .experts_per_token = work.routes.experts_per_token,
          .deferred_experts = frame_.bucket.deferred_experts,
          .exact = frame_.bucket.exact,
          .hidden = memory_.Data<const Bf16>(work.rows.first, work.in),
          .experts = reinterpret_cast<const int32_t*>(stored.experts->device()) + entry,
          .weights = reinterpret_cast<const float*>(stored.weights->device()) + entry};
}

void LaunchingStep::EnqueueSort(const RoutedCall& call) const {
  if (parts_.hot == nullptr) return;
  parts_.hot->EnqueueCount(call.products());
  parts_.products->EnqueueSort(call.products(), parts_.hot->Slots(call.layer));
}

RoutedCall LaunchingStep::LeftOf(RoutedCall call) const {
  if (parts_.hot != nullptr) call.experts = parts_.products->left();
  return call;
}

void LaunchingStep::EnqueueHot(const RoutedCall& call, float* residual) const {
  if (parts_.hot == nullptr) return;
  const SlotSet slots = parts_.hot->Slots(call.layer);
  parts_.products->EnqueueProducts(call.products(), slots);
  parts_.products->EnqueueCombine(call.products(), slots, residual);
}

}  // namespace numoe::execution::cuda
