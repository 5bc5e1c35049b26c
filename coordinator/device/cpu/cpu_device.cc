#include "coordinator/device/cpu/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace numoe {
namespace {

// Tokens of one task of the operations that work token by token.
constexpr int kTaskTokens = 8;
// Tokens that meet a gate's panel together.
constexpr int kGateTokens = 64;

int Tasks(int rows, int per_task) { return (rows + per_task - 1) / per_task; }

}  // namespace

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Create(const CpuDeviceOptions& options) {
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  std::optional<WeightFormat> dense_format;
  if (options.dense_format != "auto") {
    ASSIGN_OR_RETURN(dense_format, ParseWeightFormat(options.dense_format));
  }
  return std::unique_ptr<CpuDevice>(new CpuDevice(options, isa, dense_format));
}

CpuDevice::CpuDevice(const CpuDeviceOptions& options, Isa isa, std::optional<WeightFormat> dense_format)
    : step_tokens_max_(options.step_tokens_max),
      measure_only_(options.measure_only),
      isa_(isa),
      precision_(options.precision),
      dense_format_(dense_format),
      ops_(VectorOpsFor(isa)),
      pool_({.name = "device", .cpus = options.cpus}),
      attention_(isa, pool_),
      thread_sums_(static_cast<size_t>(pool_.threads())) {}

Precision CpuDevice::StepPrecision() const {
  return layout().exact && precision_ == Precision::kFast ? Precision::kBf16 : precision_;
}

ActivationForm CpuDevice::FormFor(WeightFormat format) const {
  return ChooseForm(isa_, format, rows_, StepPrecision());
}

void CpuDevice::ForTokens(TokenRun run, absl::FunctionRef<void(int token)> body) {
  pool_.Run(Tasks(run.tokens(), kTaskTokens), [&](int task, int) {
    const int begin = run.begin + task * kTaskTokens;
    for (int t = begin; t < std::min(begin + kTaskTokens, run.end); ++t) body(t);
  });
}

void CpuDevice::BeginStep(const StepLayout& layout) {
  NUMOE_CHECK_LE(layout.tokens.size(), static_cast<size_t>(step_tokens_max_));
  NUMOE_CHECK(!measure_only_) << "nothing was loaded";
  NUMOE_CHECK(layout.second_half >= 0 && layout.second_half < std::max(layout.rows(), 1));
  step_ = {};
  step_[0].layout = layout;
  for (const StepSpan half : {StepSpan::kFirstHalf, StepSpan::kSecondHalf}) {
    if (layout.second_half == 0) break;
    const RowRange range = RangeOf(layout, half);
    UsedRows& rows = step_[static_cast<size_t>(half)];
    rows.layout = SliceRows(layout, range);
    rows.first = range.begin;
  }
  for (StoredRope& rope : ropes_) rope.planned = false;
  UseRows(StepSpan::kAll);
}

void CpuDevice::UseRows(StepSpan rows) {
  NUMOE_CHECK(rows == StepSpan::kAll || Way() == StepWay::kHalves) << "the step is not cut";
  used_ = rows;
  rows_ = layout().rows();
}

void CpuDevice::Embed(const Matrix& table, Tensor out) {
  const StoredEmbedding& embedding = embeddings_[table.id];
  ForTokens([&](int t) {
    const TokenId token = layout().tokens[t];
    NUMOE_CHECK(token >= 0 && token < table.rows) << "token id " << token;
    DecodeMatrix(embedding.view, token, token + 1, 0, table.cols, absl::MakeSpan(Row(out, t), table.cols));
  });
}

void CpuDevice::RmsNorm(HeadView in, int width, const Vector& weight, float eps, HeadView out) {
  NUMOE_CHECK_EQ(weight.size, width);
  const float* w = vectors_[weight.id].data();
  ForTokens([&](int t) {
    for (int h = 0; h < in.heads; ++h) {
      const float* x = Window(in, t, h);
      const float mean = ops_.sum_squares(x, width) / static_cast<float>(width);
      ops_.scale_by(x, 1.0f / std::sqrt(mean + eps), w, Window(out, t, h), width);
    }
  });
}

// Cosines, then sines, of every token's angles: once a step, for all rows, layers and heads.
void CpuDevice::PlanTurns(StoredRope& rope) {
  const StepLayout& step = at(StepSpan::kAll).layout;
  const size_t pairs = rope.inverse.size();
  rope.turns.resize(std::max(rope.turns.size(), static_cast<size_t>(step.rows()) * 2 * pairs));
  ForTokens({0, step.rows()}, [&](int t) {
    float* turns = &rope.turns[static_cast<size_t>(t) * 2 * pairs];
    for (size_t i = 0; i < pairs; ++i) {
      // fp64: an fp32 product of position and frequency is off by up to 0.01 rad at 256k positions.
      const double angle = static_cast<double>(step.positions[t]) * rope.inverse[i];
      turns[i] = static_cast<float>(std::cos(angle)) * rope.multiplier;
      turns[pairs + i] = static_cast<float>(std::sin(angle)) * rope.multiplier;
    }
  });
  rope.planned = true;
}

void CpuDevice::Rope(const RopeTable& table, HeadView in, HeadView out) {
  StoredRope& rope = ropes_[table.id];
  if (!rope.planned) PlanTurns(rope);
  const int pairs = table.dim / 2;
  const auto rotate = rope.layout == RopeLayout::kInterleaved ? ops_.rotate_pairs : ops_.rotate_halves;
  ForTokens([&](int t) {
    const float* turns = &rope.turns[static_cast<size_t>(used().first + t) * static_cast<size_t>(table.dim)];
    for (int h = 0; h < in.heads; ++h)
      rotate(Window(in, t, h), turns, turns + pairs, pairs, Window(out, t, h));
  });
}

void CpuDevice::StoreCacheRow(const float* values, const CacheRowForm& form,
                              const CacheMemory::Row& row) const {
  if (form.coded > 0)
    NarrowRow(isa_, values, form.coded, reinterpret_cast<uint8_t*>(row.values), row.exponents);
  auto* plain = reinterpret_cast<uint16_t*>(row.values + form.coded);
  if (form.coded < form.width) ops_.to_bf16(values + form.coded, plain, form.width - form.coded);
}

void CpuDevice::WriteKv(LayerId layer, Tensor rows) {
  const CacheRow& shape = cache_.spec().row;
  NUMOE_CHECK_EQ(rows.cols, shape.width());
  ForTokens([&](int t) {
    const float* row = Row(rows, t);
    const int sequence = layout().sequences[t];
    const int position = layout().positions[t];
    for (int h = 0; h < shape.heads; ++h, row += shape.key_width)
      StoreCacheRow(row, cache_.keys(), cache_.Key(layout(), layer, sequence, position, h));
    for (int h = 0; shape.value_width > 0 && h < shape.heads; ++h, row += shape.value_width)
      StoreCacheRow(row, cache_.values(), cache_.Value(layout(), layer, sequence, position, h));
  });
}

void CpuDevice::Route(const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) {
  NUMOE_CHECK_EQ(routes.experts_per_token, params.experts_per_token);
  const StoredGate& stored = gates_[gate.id];
  NUMOE_CHECK_EQ(stored.packed.cols, in.cols);
  const size_t experts = static_cast<size_t>(gate.experts);
  gate_logits_.resize(std::max(gate_logits_.size(), static_cast<size_t>(rows_) * experts));
  GateLogits(stored, in);
  StoredRoutes& table = routes_[routes.id];
  const auto first = static_cast<size_t>(used().first);
  pool_.Run(Tasks(rows_, kTaskTokens), [&](int task, int) {
    GateSelector selector(params, gate.experts);
    for (int t = task * kTaskTokens; t < std::min((task + 1) * kTaskTokens, rows_); ++t) {
      const size_t token = static_cast<size_t>(t);
      const size_t k = static_cast<size_t>(params.experts_per_token);
      selector.Select(absl::MakeConstSpan(&gate_logits_[token * experts], experts), stored.bias,
                      absl::MakeSpan(&table.experts[(first + token) * k], k),
                      absl::MakeSpan(&table.weights[(first + token) * k], k));
    }
  });
}

// Activations stay fp32 here, whatever the step's precision: which experts a token gets must not hang on
// rounding.
void CpuDevice::GateLogits(const StoredGate& gate, Tensor in) {
  const int experts = gate.packed.rows;
  if (gate.packed.data == nullptr) {
    return ForTokens([&](int t) {
      for (int e = 0; e < experts; ++e) {
        gate_logits_[static_cast<size_t>(t * experts + e)] = ops_.dot(
            Row(in, t), &gate.weight[static_cast<size_t>(e) * static_cast<size_t>(in.cols)], in.cols);
      }
    });
  }
  // Of the forms for products with BF16 only kFp32 rounds nothing.
  const ActivationForm fast = ChooseForm(isa_, WeightFormat::kBf16, rows_, Precision::kBf16);
  rounded_now_ = {};
  const InputRows all =
      InputsIn(fast == ActivationForm::kFp32 ? ActivationForm::kFp32 : ActivationForm::kFloat, in);
  const int panels = Tasks(experts, kPanelRows);
  pool_.Run(panels * Tasks(rows_, kGateTokens), [&](int task, int) {
    const int token = task / panels * kGateTokens;
    const int begin = task % panels * kPanelRows;
    InputRows x = all;
    x.data += static_cast<size_t>(token) * x.stride;
    x.count = std::min(kGateTokens, rows_ - token);
    Multiply(isa_, {.weight = gate.packed,
                    .row_begin = begin,
                    .row_end = std::min(begin + kPanelRows, experts),
                    .x = x,
                    .y = &gate_logits_[static_cast<size_t>(token * experts + begin)],
                    .y_stride = experts});
  });
}

void CpuDevice::StageExperts(LayerId layer, Tensor in, RouteTable routes) {
  const StoredRoutes& table = routes_[routes.id];
  const auto k = static_cast<size_t>(routes.experts_per_token);
  const auto first = static_cast<size_t>(used().first), rows = static_cast<size_t>(rows_);
  staged_first_ = used().first;
  staged_ = {.layer = layer,
             .tokens = rows_,
             .hidden_size = in.cols,
             .experts_per_token = routes.experts_per_token,
             .deferred_experts = layout().deferred_experts,
             .exact = layout().exact,
             .hidden = absl::MakeSpan(Row(in, 0), rows * static_cast<size_t>(in.cols)),
             .experts = absl::MakeConstSpan(table.experts).subspan(first * k, rows * k),
             .weights = absl::MakeConstSpan(table.weights).subspan(first * k, rows * k)};
}

absl::Status CpuDevice::StartExperts(ExpertBackend& experts, Tensor) {
  called_ = {staged_first_, staged_first_ + staged_.tokens};
  return experts.Start(staged_);
}

absl::Span<float> CpuDevice::CallRows(Tensor out) {
  return absl::MakeSpan(StepRow(out, called_.begin), static_cast<size_t>(called_.rows()) * out.cols);
}

absl::Status CpuDevice::JoinExperts(ExpertBackend& experts, Tensor out) {
  return experts.Finish(CallRows(out));
}

absl::Status CpuDevice::JoinDeferredExperts(ExpertBackend& experts, Tensor out) {
  return experts.FinishDeferred(CallRows(out));
}

void CpuDevice::SelectLogitRows(Tensor in, Tensor out) {
  NUMOE_CHECK_EQ(in.cols, out.cols);
  NUMOE_CHECK(used_ == StepSpan::kAll) << "logits are of all rows";
  rows_ = static_cast<int>(layout().logit_rows.size());
  ForTokens([&](int r) { std::copy_n(Row(in, layout().logit_rows[r]), in.cols, Row(out, r)); });
}

absl::StatusOr<absl::Span<const float>> CpuDevice::ReadLogits(Tensor logits) {
  return absl::MakeConstSpan(Row(logits, 0), static_cast<size_t>(rows_) * logits.cols);
}

std::string CpuDevice::Describe() const {
  return fmt::format("cpu, isa {}, {} threads", IsaName(isa_), pool_.threads());
}

}  // namespace numoe
