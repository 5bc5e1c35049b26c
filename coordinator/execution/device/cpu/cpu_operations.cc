#include "coordinator/execution/device/cpu/cpu_operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "common/base/check.h"
#include "coordinator/execution/device/cpu/cpu_tasks.h"

namespace numoe::execution {
namespace {

// Returns the slot of the plan for a cache's layers, which is empty if the plan was not made yet.
template <typename Plan>
std::optional<Plan>& PlanOf(std::vector<std::optional<Plan>>& plans, CachePlace place) {
  const auto cache = static_cast<size_t>(place.cache);
  if (plans.size() <= cache) plans.resize(cache + 1);
  return plans[cache];
}

class CpuOperations final : public Operations {
 public:
  CpuOperations(const StepLayout& layout, const CpuParts& parts);

  void Embed(Rows rows, const Matrix& table, Tensor out) override;
  void RmsNorm(Rows rows, HeadView in, int width, const Vector& weight, float eps, HeadView out) override;
  void Linear(Rows rows, Tensor in, absl::Span<const LinearTarget> targets) override;
  void GatedLinear(Rows rows, Tensor in, const GatedMatrix& matrices, Tensor out) override;
  void Rope(Rows rows, const RopeTable& table, HeadView in, HeadView out) override;
  void WriteKv(Rows rows, CachePlace place, Tensor values) override;
  void Attend(Rows rows, const AttendArgs& args) override;
  void AttendLatent(Rows rows, const LatentAttendArgs& args) override;
  void Route(Rows rows, const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) override;

 private:
  // Rows that attend together, their layout, and their plans of attention.
  struct AttendPart {
    const StepLayout* layout = nullptr;
    StepLayout slice;  // the layout of a half; unused for the whole step
    // Indexed by cache: all layers of a cache attend in the same way, so the first one makes the plan for
    // them.
    std::vector<std::optional<AttendPlan>> attend_plans;
    std::vector<std::optional<LatentPlan>> latent_plans;
  };

  Precision precision() const;
  Rows all() const { return {RowSet::kAll, 0, layout_.rows()}; }
  AttendPart& PartOf(Rows rows);
  FloatRows RowsOf(Rows rows, Tensor tensor) const;
  void ForRowsOf(Rows rows, absl::FunctionRef<void(int row)> body) const;
  const float* PlanCosSin(const RopeTable& table);
  void StoreCacheRow(const float* values, const CacheRowForm& form, const CacheMemory::Row& row) const;
  void GateLogits(Rows rows, const CpuStore::StoredGate& gate, Tensor in);

  const StepLayout& layout_;
  const CpuParts parts_;
  std::array<AttendPart, 3> attend_parts_;  // by RowSet
  std::vector<bool> has_cos_sin_;           // by rope table
};

CpuOperations::CpuOperations(const StepLayout& layout, const CpuParts& parts)
    : layout_(layout), parts_(parts) {
  NUMOE_CHECK_LE(layout.rows(), parts.store.step_tokens_max());
  const auto part = [&](RowSet set) -> AttendPart& { return attend_parts_[static_cast<size_t>(set)]; };
  part(RowSet::kAll).layout = &layout;
  if (layout.second_half == 0) return;
  part(RowSet::kFirstHalf).slice = SliceRows(layout, {.begin = 0, .end = layout.second_half});
  part(RowSet::kSecondHalf).slice = SliceRows(layout, {.begin = layout.second_half, .end = layout.rows()});
  for (const RowSet half : {RowSet::kFirstHalf, RowSet::kSecondHalf}) part(half).layout = &part(half).slice;
}

Precision CpuOperations::precision() const { return EffectivePrecision(parts_.precision, layout_.exact); }

CpuOperations::AttendPart& CpuOperations::PartOf(Rows rows) {
  NUMOE_CHECK(rows.set != RowSet::kLogits) << "rows of logits cannot attend";
  AttendPart& part = attend_parts_[static_cast<size_t>(rows.set)];
  NUMOE_CHECK(part.layout != nullptr) << "the step is not divided into halves";
  NUMOE_CHECK_EQ(part.layout->rows(), rows.count);
  return part;
}

FloatRows CpuOperations::RowsOf(Rows rows, Tensor tensor) const {
  return {.data = parts_.store.Row(tensor, rows.first), .count = rows.count, .cols = tensor.cols};
}

void CpuOperations::ForRowsOf(Rows rows, absl::FunctionRef<void(int row)> body) const {
  ForRows(parts_.pool, {rows.first, rows.first + rows.count}, body);
}

void CpuOperations::Embed(Rows rows, const Matrix& table, Tensor out) {
  const MatrixView& view = parts_.store.embedding(table);
  ForRowsOf(rows, [&](int t) {
    const TokenId token = layout_.tokens[static_cast<size_t>(t)];
    NUMOE_CHECK(token >= 0 && token < table.rows) << "token id " << token;
    DecodeMatrix(view, token, token + 1, 0, table.cols,
                 absl::MakeSpan(parts_.store.Row(out, t), static_cast<size_t>(table.cols)));
  });
}

void CpuOperations::RmsNorm(Rows rows, HeadView in, int width, const Vector& weight, float eps,
                            HeadView out) {
  NUMOE_CHECK_EQ(weight.size, width);
  NUMOE_CHECK_EQ(in.heads, out.heads);
  const float* w = parts_.store.vector(weight);
  ForRowsOf(rows, [&](int t) {
    for (int h = 0; h < in.heads; ++h) {
      const float* x = parts_.store.Window(in, t, h);
      const float mean = parts_.ops.sum_squares(x, width) / static_cast<float>(width);
      parts_.ops.scale_by(x, 1.0f / std::sqrt(mean + eps), w, parts_.store.Window(out, t, h), width);
    }
  });
}

void CpuOperations::Linear(Rows rows, Tensor in, absl::Span<const LinearTarget> targets) {
  absl::InlinedVector<CpuLinear::Product, 4> products;
  for (const LinearTarget& target : targets) {
    const PackedMatrix& weight = parts_.store.matrix(target.matrix);
    NUMOE_CHECK_LE(target.out.offset + weight.rows, target.out.tensor.cols);
    products.push_back({.weight = &weight,
                        .out = {parts_.store.Window(target.out, rows.first, 0), target.out.tensor.cols},
                        .accumulate = target.accumulate});
  }
  parts_.linear.Multiply(RowsOf(rows, in), products, precision());
}

void CpuOperations::GatedLinear(Rows rows, Tensor in, const GatedMatrix& matrices, Tensor out) {
  const auto& [gate, up] = parts_.store.gated(matrices);
  NUMOE_CHECK_EQ(gate.rows, out.cols);
  parts_.linear.MultiplyGated(RowsOf(rows, in), parts_.store.matrix(gate), parts_.store.matrix(up),
                              {parts_.store.Row(out, rows.first), out.cols}, precision());
}

// Computes the cosines, then the sines, of every token's angles, once per step for all rows, layers and
// heads.
const float* CpuOperations::PlanCosSin(const RopeTable& table) {
  const auto id = static_cast<size_t>(table.id);
  if (parts_.cos_sin.size() <= id) parts_.cos_sin.resize(id + 1);
  if (has_cos_sin_.size() <= id) has_cos_sin_.resize(id + 1);
  std::vector<float>& values = parts_.cos_sin[id];
  if (has_cos_sin_[id]) return values.data();
  const CpuStore::RopeAngles& rope = parts_.store.rope(table);
  const size_t pairs = rope.inverse.size();
  values.resize(std::max(values.size(), static_cast<size_t>(layout_.rows()) * 2 * pairs));
  ForRowsOf(all(), [&](int t) {
    float* row = &values[static_cast<size_t>(t) * 2 * pairs];
    for (size_t i = 0; i < pairs; ++i) {
      // fp64, since an fp32 product of position and frequency is off by up to 0.01 rad at 256k positions.
      const double angle = static_cast<double>(layout_.positions[static_cast<size_t>(t)]) * rope.inverse[i];
      row[i] = static_cast<float>(std::cos(angle)) * rope.multiplier;
      row[pairs + i] = static_cast<float>(std::sin(angle)) * rope.multiplier;
    }
  });
  has_cos_sin_[id] = true;
  return values.data();
}

void CpuOperations::Rope(Rows rows, const RopeTable& table, HeadView in, HeadView out) {
  const float* cos_sin = PlanCosSin(table);
  const int pairs = table.dim / 2;
  const auto rotate = parts_.store.rope(table).layout == RopeLayout::kInterleaved ? parts_.ops.rotate_pairs
                                                                                  : parts_.ops.rotate_halves;
  ForRowsOf(rows, [&](int t) {
    const float* row = cos_sin + int64_t{t} * table.dim;
    for (int h = 0; h < in.heads; ++h)
      rotate(parts_.store.Window(in, t, h), row, row + pairs, pairs, parts_.store.Window(out, t, h));
  });
}

void CpuOperations::StoreCacheRow(const float* values, const CacheRowForm& form,
                                  const CacheMemory::Row& row) const {
  if (form.coded > 0)
    NarrowRow(parts_.isa, values, form.coded, reinterpret_cast<uint8_t*>(row.values), row.exponents);
  auto* plain = reinterpret_cast<uint16_t*>(row.values + form.coded);
  if (form.coded < form.width) parts_.ops.to_bf16(values + form.coded, plain, form.width - form.coded);
}

void CpuOperations::WriteKv(Rows rows, CachePlace place, Tensor values) {
  const CacheMemory& cache = parts_.store.cache(place.cache);
  const CacheRow& shape = cache.shape().row;
  NUMOE_CHECK_EQ(values.cols, shape.width());
  NUMOE_CHECK(place.layer >= 0 && place.layer < cache.shape().layers);
  ForRowsOf(rows, [&](int t) {
    const float* row = parts_.store.Row(values, t);
    const int sequence = layout_.sequences[static_cast<size_t>(t)];
    const int position = layout_.positions[static_cast<size_t>(t)];
    for (int h = 0; h < shape.heads; ++h, row += shape.key_width)
      StoreCacheRow(row, cache.keys(), cache.Key(layout_, place.layer, sequence, position, h));
    for (int h = 0; shape.value_width > 0 && h < shape.heads; ++h, row += shape.value_width)
      StoreCacheRow(row, cache.values(), cache.Value(layout_, place.layer, sequence, position, h));
  });
}

void CpuOperations::Attend(Rows rows, const AttendArgs& args) {
  AttendPart& part = PartOf(rows);
  const CacheMemory& cache = parts_.store.cache(args.cache.cache);
  const CacheRow& row = cache.shape().row;
  NUMOE_CHECK(args.kv_heads == row.heads && args.key_width == row.key_width);
  NUMOE_CHECK_EQ(args.value_in_key ? 0 : args.value_width, row.value_width);
  std::optional<AttendPlan>& plan = PlanOf(part.attend_plans, args.cache);
  if (!plan) {
    plan = PlanAttend(*part.layout, FindRuns(*part.layout),
                      {.heads = args.heads, .kv_heads = args.kv_heads, .threads = parts_.pool.threads()});
  }
  parts_.attention.Attend({.layout = part.layout,
                           .cache = &cache,
                           .args = args,
                           .query = parts_.store.Row(args.query, rows.first),
                           .out = parts_.store.Row(args.out, rows.first),
                           .precision = precision()},
                          *plan);
}

void CpuOperations::AttendLatent(Rows rows, const LatentAttendArgs& args) {
  AttendPart& part = PartOf(rows);
  const CpuStore& store = parts_.store;
  const CpuLatentAttention::Call call{.layout = part.layout,
                                      .cache = &store.cache(args.cache.cache),
                                      .args = args,
                                      .key_up = &store.heads(args.key_up),
                                      .key_absorbed = &store.heads(args.key_absorbed),
                                      .value_up = &store.heads(args.value_up),
                                      .query = store.Row(args.query, rows.first),
                                      .absorbed = store.Row(args.absorbed, rows.first),
                                      .context = store.Row(args.context, rows.first),
                                      .out = store.Row(args.out, rows.first),
                                      .precision = precision()};
  std::optional<LatentPlan>& plan = PlanOf(part.latent_plans, args.cache);
  if (!plan) plan = parts_.latent_attention.Plan(call);
  parts_.latent_attention.Attend(call, *plan);
}

void CpuOperations::Route(Rows rows, const Gate& gate, const GateParams& params, Tensor in,
                          RouteTable routes) {
  NUMOE_CHECK_EQ(routes.experts_per_token, params.experts_per_token);
  const CpuStore::StoredGate& stored = parts_.store.gate(gate);
  NUMOE_CHECK_EQ(stored.packed.cols, in.cols);
  const auto experts = static_cast<size_t>(gate.experts);
  const auto k = static_cast<size_t>(params.experts_per_token);
  std::vector<float>& logits = parts_.gate_logits;
  logits.resize(std::max(logits.size(), static_cast<size_t>(rows.count) * experts));
  GateLogits(rows, stored, in);
  const absl::Span<ExpertId> chosen = parts_.store.RouteExperts(routes, rows.first, rows.count);
  const absl::Span<float> weights = parts_.store.RouteWeights(routes, rows.first, rows.count);
  parts_.pool.Run(TasksFor(rows.count, kTaskRows), [&](int task, int) {
    GateSelector selector(params, gate.experts);
    for (int t = task * kTaskRows; t < std::min((task + 1) * kTaskRows, rows.count); ++t) {
      const auto row = static_cast<size_t>(t);
      selector.Select(absl::MakeConstSpan(logits).subspan(row * experts, experts), stored.bias,
                      chosen.subspan(row * k, k), weights.subspan(row * k, k));
    }
  });
}

void CpuOperations::GateLogits(Rows rows, const CpuStore::StoredGate& gate, Tensor in) {
  const FloatRows x = RowsOf(rows, in);
  float* const logits = parts_.gate_logits.data();
  if (gate.packed.data != nullptr) return parts_.linear.MultiplyGate(x, gate.packed, logits);
  const int experts = gate.packed.rows;
  ForRows(parts_.pool, {0, rows.count}, [&](int t) {
    for (int e = 0; e < experts; ++e)
      logits[int64_t{t} * experts + e] =
          parts_.ops.dot(x.row(t), &gate.weight[size_t(e) * size_t(in.cols)], in.cols);
  });
}

}  // namespace

std::unique_ptr<Operations> MakeCpuOperations(const StepLayout& layout, const CpuParts& parts) {
  return std::make_unique<CpuOperations>(layout, parts);
}

}  // namespace numoe::execution
