#include "expert_worker/experts/layer_call_run.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::worker {

void LayerCallScratch::Reserve(const LayerCallPlan& plan) {
  const auto grow = [](std::vector<std::byte>& memory, size_t bytes) {
    if (memory.size() < bytes) memory.resize(bytes);
  };
  for (size_t f = 0; f < kActivationFormats; ++f) grow(quantised[f], plan.quantised_bytes[f]);
  grow(gathered, plan.gathered_bytes);
  grow(intermediate, plan.intermediate_bytes);
}

LayerCallRun::LayerCallRun(const Inputs& inputs, LayerCallScratch& scratch, absl::Span<float> out)
    : in_(inputs), scratch_(scratch), out_(out) {
  const size_t values = static_cast<size_t>(in_.shape.tokens) * static_cast<size_t>(in_.shape.hidden_size);
  NUMOE_CHECK_EQ(in_.call.tokens, in_.shape.tokens);
  NUMOE_CHECK_EQ(in_.call.hidden.size(), values);
  NUMOE_CHECK_EQ(out_.size(), values);
  NUMOE_CHECK_EQ(in_.plan.groups.size(), in_.groups.groups.size());
  NUMOE_CHECK_EQ(in_.groups.tokens.size(), in_.groups.weights.size());
  if (!in_.plan.groups.empty()) {
    const ExpertGroup& last = in_.plan.groups.back().group;
    NUMOE_CHECK_LT(static_cast<size_t>(last.expert), in_.experts.size());
    NUMOE_CHECK_EQ(static_cast<size_t>(last.row_begin + last.rows), in_.groups.tokens.size());
  }
  scratch_.Reserve(in_.plan);
}

void LayerCallRun::Do(int phase_number, int task, int thread) const {
  NUMOE_DCHECK(0 <= task && task < in_.plan.phase_tasks[static_cast<size_t>(phase_number)]);
  const LayerPhase& phase = in_.plan.phases[static_cast<size_t>(phase_number)];
  const auto index = static_cast<size_t>(phase.first_task + task);
  switch (phase.kind) {
    case LayerPhase::Kind::kQuantise:
      return Quantise(in_.plan.quantise[index]);
    case LayerPhase::Kind::kGather:
      return Gather(in_.plan.groups[static_cast<size_t>(in_.plan.gather[index])]);
    case LayerPhase::Kind::kGateAndUp:
      return GateAndUp(in_.plan.gate_and_up[index], thread);
    case LayerPhase::Kind::kDown:
      return Down(phase, in_.plan.down[index], thread);
  }
}

QuantisedMemory LayerCallRun::QuantisedTokens(ActivationFormat format) const {
  std::vector<std::byte>& memory = scratch_.quantised[static_cast<size_t>(format)];
  const QuantisedMemory rows{format, in_.shape.hidden_size, in_.shape.tokens, memory.data()};
  NUMOE_DCHECK(rows.bytes() <= memory.size());
  return rows;
}

QuantisedRows LayerCallRun::TokenRows(ActivationFormat format) const {
  if (IsPlainFp32(format, in_.shape.hidden_size))
    return PlainRows(format, in_.call.hidden.data(), in_.shape.hidden_size, in_.shape.tokens);
  return QuantisedTokens(format).rows();
}

QuantisedMemory LayerCallRun::GatheredRows(const GroupPlan& group) const {
  NUMOE_DCHECK(group.gathered());
  const QuantisedMemory rows{group.x_format, in_.shape.hidden_size, group.group.rows,
                             scratch_.gathered.data() + group.x_offset};
  NUMOE_DCHECK(group.x_offset + rows.bytes() <= scratch_.gathered.size());
  return rows;
}

QuantisedMemory LayerCallRun::IntermediateRows(const GroupPlan& group) const {
  const QuantisedMemory rows{group.h_format, in_.shape.width, group.group.rows,
                             scratch_.intermediate.data() + group.h_offset};
  NUMOE_DCHECK(group.h_offset + rows.bytes() <= scratch_.intermediate.size());
  return rows;
}

int LayerCallRun::TokenOf(const GroupPlan& group, int row) const {
  NUMOE_DCHECK(0 <= row && row < group.group.rows);
  return in_.groups.tokens[static_cast<size_t>(group.group.row_begin + row)];
}

const ExpertWeights& LayerCallRun::WeightsOf(const GroupPlan& group) const {
  NUMOE_DCHECK(in_.experts[static_cast<size_t>(group.group.expert)].gate.data != nullptr);
  return in_.experts[static_cast<size_t>(group.group.expert)];
}

float* LayerCallRun::Sums(int thread, size_t values) const {
  NUMOE_DCHECK(0 <= thread && static_cast<size_t>(thread) < scratch_.sums.size());
  std::vector<float>& sums = scratch_.sums[static_cast<size_t>(thread)];
  if (sums.size() < values) sums.resize(values);
  return sums.data();
}

void LayerCallRun::Quantise(const QuantiseTask& task) const {
  const QuantisedMemory rows = QuantisedTokens(task.format);
  const QuantisedRows hidden = TokenRows(ActivationFormat::kFloat);
  for (int token = task.token_begin; token < task.token_end; ++token) {
    const auto* x = reinterpret_cast<const float*>(hidden.Row(token));
    rows.WritePart(in_.shape.isa, token, task.col_begin, x + task.col_begin, task.col_end - task.col_begin);
  }
}

void LayerCallRun::Gather(const GroupPlan& group) const {
  const QuantisedMemory rows = GatheredRows(group);
  const QuantisedRows tokens = TokenRows(group.x_format);
  for (int row = 0; row < rows.count; ++row) rows.Copy(row, tokens.Row(TokenOf(group, row)));
}

// Computes h = silu(gate x) * up x, in the format that down reads.
void LayerCallRun::GateAndUp(const GateAndUpTask& task, int thread) const {
  const GroupPlan& group = in_.plan.groups[static_cast<size_t>(task.group)];
  const auto& [gate, up, down] = WeightsOf(group);
  const QuantisedMemory h = IntermediateRows(group);
  const int width = task.row_end - task.row_begin;
  const size_t values = static_cast<size_t>(h.count) * static_cast<size_t>(width);
  float* gate_sums = Sums(thread, 2 * values);
  float* up_sums = gate_sums + values;
  QuantisedProduct product{.weight = gate,
                           .row_begin = task.row_begin,
                           .row_end = task.row_end,
                           .x = group.gathered() ? GatheredRows(group).rows()
                                                 : TokenRows(group.x_format).From(TokenOf(group, 0), 1),
                           .y = gate_sums,
                           .y_stride = width,
                           .next = PanelAt(up, task.row_begin)};
  Multiply(in_.shape.isa, product);
  product.weight = up;
  product.y = up_sums;
  product.next = nullptr;
  Multiply(in_.shape.isa, product);
  SwiGlu(in_.shape.isa, gate_sums, up_sums, static_cast<int64_t>(values));
  for (int row = 0; row < h.count; ++row, gate_sums += width)
    h.WritePart(in_.shape.isa, row, task.row_begin, gate_sums, width);
}

// The first batch writes the sums; later batches add to them.
void LayerCallRun::Down(const LayerPhase& phase, const DownTask& task, int thread) const {
  const int width = task.row_end - task.row_begin;
  const auto hidden = static_cast<size_t>(in_.shape.hidden_size);
  for (size_t token = 0; phase.group_begin == 0 && token < static_cast<size_t>(in_.shape.tokens); ++token)
    std::fill_n(&out_[token * hidden + static_cast<size_t>(task.row_begin)], width, 0.0f);
  const absl::Span<const GroupPlan> groups(in_.plan.groups);
  for (int g = phase.group_begin; g < phase.group_end; ++g) {
    const GroupPlan& group = groups[static_cast<size_t>(g)];
    float* sums = Sums(thread, static_cast<size_t>(group.group.rows) * static_cast<size_t>(width));
    const bool is_last = g + 1 == phase.group_end;
    Multiply(in_.shape.isa,
             {.weight = WeightsOf(group).down,
              .row_begin = task.row_begin,
              .row_end = task.row_end,
              .x = IntermediateRows(group).rows(),
              .y = sums,
              .y_stride = width,
              .next = is_last ? nullptr
                              : PanelAt(WeightsOf(groups[static_cast<size_t>(g) + 1]).down, task.row_begin)});
    AddRows(group, task, sums);
  }
}

void LayerCallRun::AddRows(const GroupPlan& group, const DownTask& task, const float* sums) const {
  const int width = task.row_end - task.row_begin;
  for (int row = 0; row < group.group.rows; ++row, sums += width) {
    const float weight = in_.groups.weights[static_cast<size_t>(group.group.row_begin + row)];
    float* target =
        &out_[static_cast<size_t>(TokenOf(group, row)) * static_cast<size_t>(in_.shape.hidden_size) +
              static_cast<size_t>(task.row_begin)];
    for (int i = 0; i < width; ++i) target[i] += weight * sums[i];
  }
}

}  // namespace numoe::worker
