// Attention of the CPU device: grouped-query attention as it is, latent attention in either of its forms.
#include <algorithm>

#include "common/base/check.h"
#include "coordinator/device/cpu/cpu_device.h"

namespace numoe {

void CpuDevice::Attend(const AttendArgs& args) {
  const CacheRow& row = cache_.spec().row;
  NUMOE_CHECK(args.kv_heads == row.heads && args.key_width == row.key_width);
  NUMOE_CHECK_EQ(args.value_in_key ? 0 : args.value_width, row.value_width);
  std::optional<AttendPlan>& plan = used().attend_plan;
  if (!plan) {
    plan = PlanAttend(layout(), FindRuns(layout()),
                      {.heads = args.heads, .kv_heads = args.kv_heads, .threads = pool_.threads()});
  }
  attention_.Attend({.layout = &layout(),
                     .cache = &cache_,
                     .args = args,
                     .query = Row(args.query, 0),
                     .out = Row(args.out, 0),
                     .precision = StepPrecision()},
                    *plan);
}

void CpuDevice::AttendLatent(const LatentAttendArgs& args) {
  const int heads = args.key_up.heads;
  const int nope = args.key_up.rows;
  const int latent = args.key_up.cols;
  const int value = args.value_up.rows;
  const int row_width = cache_.spec().row.key_width;
  const int rope = row_width - latent;
  NUMOE_CHECK(cache_.spec().row.heads == 1 && cache_.spec().row.value_width == 0 && rope >= 0);
  NUMOE_CHECK(args.query.cols == heads * (nope + rope) && args.out.cols == heads * value);
  NUMOE_CHECK(args.absorbed.cols == heads * row_width && args.context.cols == heads * latent);
  std::optional<LatentPlan>& plan = used().latent_plan;
  if (!plan) {
    plan = PlanLatent(layout(), {.heads = heads,
                                 .nope = nope,
                                 .rope = rope,
                                 .value = value,
                                 .latent = latent,
                                 .threads = pool_.threads(),
                                 .may_expand = StepPrecision() == Precision::kFast});
  }
  CpuAttention::Call call{.layout = &layout(),
                          .cache = &cache_,
                          .args = {.layer = args.layer,
                                   .heads = heads,
                                   .key_width = row_width,
                                   .value_width = latent,
                                   .kv_heads = 1,
                                   .value_in_key = true,
                                   .scale = args.scale},
                          .query = Row(args.absorbed, 0),
                          .out = Row(args.context, 0),
                          .precision = StepPrecision()};
  if (!plan->absorbed.tasks.empty()) {
    AbsorbQueries(args, rope);
    attention_.Attend(call, plan->absorbed);
    HeadProducts(head_matrices_[static_cast<size_t>(args.value_up.id)], {args.context, heads, latent, 0},
                 {args.out, heads, value, 0});
  }
  if (!plan->expanded.tasks.empty()) {
    call.args.key_width = nope + rope;
    call.args.value_width = value;
    call.args.kv_heads = heads;
    call.args.value_in_key = false;
    call.query = Row(args.query, 0);
    call.out = Row(args.out, 0);
    call.expansion = {&head_matrices_[static_cast<size_t>(args.key_up.id)].heads,
                      &head_matrices_[static_cast<size_t>(args.value_up.id)].heads};
    attention_.Attend(call, plan->expanded);
  }
}

// absorbed = W_UK^T q_nope, then q_rope.
void CpuDevice::AbsorbQueries(const LatentAttendArgs& args, int rope) {
  const HeadMatrices& matrices = args.key_absorbed;
  const int stride = matrices.cols + rope;
  const HeadView query{args.query, matrices.heads, stride, 0};
  const HeadView absorbed{args.absorbed, matrices.heads, matrices.rows + rope, 0};
  HeadProducts(head_matrices_[static_cast<size_t>(matrices.id)], query, absorbed);
  for (const TokenRun& run : used().latent_plan->absorbed_tokens) {
    ForTokens(run, [&](int t) {
      for (int h = 0; h < matrices.heads; ++h)
        std::copy_n(Window(query, t, h) + matrices.cols, rope, Window(absorbed, t, h) + matrices.rows);
    });
  }
}

// out = each head's matrix * its window of `in`, for the tokens that attend in absorbed form.
void CpuDevice::HeadProducts(const StoredHeads& matrices, HeadView in, HeadView out) {
  const std::vector<TokenRun>& runs = used().latent_plan->absorbed_tokens;
  pool_.Run(static_cast<int>(runs.size()) * in.heads, [&](int task, int thread) {
    const TokenRun& run = runs[static_cast<size_t>(task / in.heads)];
    const int h = task % in.heads;
    const PackedMatrix& weight = matrices.heads[static_cast<size_t>(h)];
    const ActivationForm form = ChooseForm(isa_, weight.format, run.tokens(), StepPrecision());
    InputRows x{form, nullptr, rounded::RowBytes(form, weight.cols), run.tokens()};
    std::vector<float>& scratch = thread_sums_[static_cast<size_t>(thread)];
    const size_t values = static_cast<size_t>(x.count) * x.stride / sizeof(float);
    if (scratch.size() < values) scratch.resize(values);
    auto* row = reinterpret_cast<std::byte*>(scratch.data());
    x.data = row;
    for (int t = run.begin; t < run.end; ++t, row += x.stride)
      StoreRow(isa_, form, Window(in, t, h), weight.cols, row);
    Multiply(isa_, {.weight = weight,
                    .row_end = weight.rows,
                    .x = x,
                    .y = Window(out, run.begin, h),
                    .y_stride = out.tensor.cols});
  });
}

}  // namespace numoe
