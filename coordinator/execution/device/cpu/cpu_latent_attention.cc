#include "coordinator/execution/device/cpu/cpu_latent_attention.h"

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/execution/device/cpu/cpu_tasks.h"

namespace numoe::execution {
namespace {

// Returns the sizes of a call, and CHECKs that its tensors have them.
LatentShape ShapeOf(const CpuLatentAttention::Call& call) {
  const LatentAttendArgs& args = call.args;
  const CacheRow& row = call.cache->shape().row;
  const LatentShape shape{.heads = args.key_up.heads,
                          .nope = args.key_up.rows,
                          .rope = row.key_width - args.key_up.cols,
                          .value = args.value_up.rows,
                          .latent = args.key_up.cols};
  NUMOE_CHECK(row.heads == 1 && row.value_width == 0 && shape.rope >= 0);
  NUMOE_CHECK_EQ(args.query.cols, shape.heads * (shape.nope + shape.rope));
  NUMOE_CHECK_EQ(args.out.cols, shape.heads * shape.value);
  NUMOE_CHECK_EQ(args.absorbed.cols, shape.heads * row.key_width);
  NUMOE_CHECK_EQ(args.context.cols, shape.heads * shape.latent);
  return shape;
}

}  // namespace

LatentPlan CpuLatentAttention::Plan(const Call& call) const {
  LatentShape shape = ShapeOf(call);
  shape.threads = pool_.threads();
  shape.may_expand = call.precision == Precision::kFast;
  return PlanLatent(*call.layout, shape);
}

void CpuLatentAttention::Attend(const Call& call, const LatentPlan& plan) {
  if (!plan.absorbed.tasks.empty()) AttendAbsorbed(call, plan);
  if (!plan.expanded.tasks.empty()) AttendExpanded(call, plan);
}

void CpuLatentAttention::AttendAbsorbed(const Call& call, const LatentPlan& plan) {
  const LatentShape shape = ShapeOf(call);
  AbsorbQueries(call, plan);
  attention_.Attend({.layout = call.layout,
                     .cache = call.cache,
                     .args = {.cache = call.args.cache,
                              .heads = shape.heads,
                              .key_width = shape.latent + shape.rope,
                              .value_width = shape.latent,
                              .kv_heads = 1,
                              .value_in_key = true,
                              .scale = call.args.scale},
                     .query = call.absorbed,
                     .out = call.context,
                     .precision = call.precision},
                    plan.absorbed);
  linear_.MultiplyHeads(*call.value_up, plan.absorbed_tokens,
                        {call.context, call.args.context.cols, shape.latent},
                        {call.out, call.args.out.cols, shape.value}, call.precision);
}

// Writes absorbed = [W_UK^T q_nope, q_rope].
void CpuLatentAttention::AbsorbQueries(const Call& call, const LatentPlan& plan) {
  const LatentShape shape = ShapeOf(call);
  const HeadRows<const float> query{call.query, call.args.query.cols, shape.nope + shape.rope};
  const HeadRows<float> absorbed{call.absorbed, call.args.absorbed.cols, shape.latent + shape.rope};
  linear_.MultiplyHeads(*call.key_absorbed, plan.absorbed_tokens, query, absorbed, call.precision);
  for (const TokenRun& run : plan.absorbed_tokens) {
    ForRows(pool_, run, [&](int t) {
      for (int h = 0; h < shape.heads; ++h)
        std::copy_n(query.at(t, h) + shape.nope, shape.rope, absorbed.at(t, h) + shape.latent);
    });
  }
}

void CpuLatentAttention::AttendExpanded(const Call& call, const LatentPlan& plan) {
  const LatentShape shape = ShapeOf(call);
  attention_.Attend({.layout = call.layout,
                     .cache = call.cache,
                     .args = {.cache = call.args.cache,
                              .heads = shape.heads,
                              .key_width = shape.nope + shape.rope,
                              .value_width = shape.value,
                              .kv_heads = shape.heads,
                              .value_in_key = false,
                              .scale = call.args.scale},
                     .expansion = CpuAttention::Expansion{.keys = call.key_up, .values = call.value_up},
                     .query = call.query,
                     .out = call.out,
                     .precision = call.precision},
                    plan.expanded);
}

}  // namespace numoe::execution
