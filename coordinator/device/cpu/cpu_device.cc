#include "coordinator/device/cpu/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace numoe {
namespace {

// Panels of one Linear task: small enough to balance, large enough to stream.
constexpr int kTaskRows = 4 * kPanelRows;
// Tokens that one task rounds.
constexpr int kTaskTokens = 8;

int Tasks(int rows, int per_task) { return (rows + per_task - 1) / per_task; }

}  // namespace

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Create(const CpuDeviceOptions& options) {
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  return std::unique_ptr<CpuDevice>(new CpuDevice(options, isa));
}

CpuDevice::CpuDevice(const CpuDeviceOptions& options, Isa isa)
    : step_tokens_max_(options.step_tokens_max),
      isa_(isa),
      precision_(options.precision),
      ops_(VectorOpsFor(isa)),
      pool_({.name = "device", .cpus = options.cpus}),
      attention_(isa, pool_) {}

void CpuDevice::BeginStep(const StepLayout& layout) {
  NUMOE_CHECK_LE(layout.tokens.size(), static_cast<size_t>(step_tokens_max_));
  layout_ = layout;
  rows_ = static_cast<int>(layout.tokens.size());
  attention_.BeginStep();
}

void CpuDevice::Embed(const Matrix& table, Tensor out) {
  const StoredEmbedding& embedding = embeddings_[table.id];
  for (int t = 0; t < rows_; ++t) {
    const TokenId token = layout_.tokens[t];
    NUMOE_CHECK(token >= 0 && token < table.rows) << "token id " << token;
    DecodeMatrix(embedding.view, token, token + 1, 0, table.cols, absl::MakeSpan(Row(out, t), table.cols));
  }
}

void CpuDevice::RmsNorm(HeadView in, int width, const Vector& weight, float eps, HeadView out) {
  NUMOE_CHECK_EQ(weight.size, width);
  const float* w = vectors_[weight.id].data();
  pool_.Run(rows_, [&](int t, int) {
    for (int h = 0; h < in.heads; ++h) {
      const float* x = Window(in, t, h);
      const float mean = ops_.sum_squares(x, width) / static_cast<float>(width);
      ops_.scale_by(x, 1.0f / std::sqrt(mean + eps), w, Window(out, t, h), width);
    }
  });
}

Precision CpuDevice::StepPrecision() const {
  return layout_.exact && precision_ == Precision::kFast ? Precision::kBf16 : precision_;
}

ActivationForm CpuDevice::FormFor(WeightFormat format) const {
  return ChooseForm(isa_, format, rows_, StepPrecision());
}

size_t CpuDevice::RoundRows(ActivationForm form, HeadView in, int width) {
  const size_t stride = rounded::RowBytes(form, width);
  rounded_.resize(
      std::max(rounded_.size(), static_cast<size_t>(rows_) * static_cast<size_t>(in.heads) * stride));
  pool_.Run(Tasks(rows_, kTaskTokens), [&](int task, int) {
    for (int t = task * kTaskTokens; t < std::min((task + 1) * kTaskTokens, rows_); ++t) {
      for (int h = 0; h < in.heads; ++h) {
        RoundRow(isa_, form, Window(in, t, h), width,
                 &rounded_[(static_cast<size_t>(h) * static_cast<size_t>(rows_) + static_cast<size_t>(t)) *
                           stride]);
      }
    }
  });
  return stride;
}

void CpuDevice::Linear(const Matrix& matrix, Tensor in, Tensor out, bool accumulate) {
  NUMOE_CHECK(in.cols == matrix.cols && out.cols == matrix.rows);
  float* target = Row(out, 0);
  if (accumulate) {
    linear_scratch_.resize(static_cast<size_t>(rows_) * out.cols);
    target = linear_scratch_.data();
  }
  const PackedMatrix& weight = matrices_[matrix.id].packed;
  const ActivationForm form = FormFor(weight.format);
  const size_t stride = form == ActivationForm::kFloat ? 0 : RoundRows(form, {.tensor = in}, in.cols);
  pool_.Run(Tasks(matrix.rows, kTaskRows), [&](int task, int) {
    const int begin = task * kTaskRows;
    const int end = std::min(begin + kTaskRows, matrix.rows);
    if (form == ActivationForm::kFloat) {
      Matmul(isa_, {.weight = weight,
                    .row_begin = begin,
                    .row_end = end,
                    .x = Row(in, 0),
                    .x_stride = in.cols,
                    .tokens = rows_,
                    .y = target + begin,
                    .y_stride = out.cols,
                    .exact = layout_.exact || precision_ == Precision::kFloat});
    } else {
      MatmulRounded(isa_, {.weight = weight,
                           .row_begin = begin,
                           .row_end = end,
                           .form = form,
                           .x = rounded_.data(),
                           .x_stride = stride,
                           .tokens = rows_,
                           .y = target + begin,
                           .y_stride = out.cols});
    }
    if (!accumulate) return;
    for (int t = 0; t < rows_; ++t) {
      float* row = Row(out, t);
      for (int o = begin; o < end; ++o) row[o] += target[int64_t{t} * out.cols + o];
    }
  });
}

void CpuDevice::HeadLinear(const HeadMatrices& matrices, HeadView in, HeadView out) {
  NUMOE_CHECK(in.heads == matrices.heads && out.heads == matrices.heads);
  const StoredHeads& stored = head_matrices_[matrices.id];
  const ActivationForm form = FormFor(stored.heads[0].format);
  const size_t stride = form == ActivationForm::kFloat ? 0 : RoundRows(form, in, matrices.cols);
  pool_.Run(matrices.heads, [&](int h, int) {
    if (form == ActivationForm::kFloat) {
      Matmul(isa_, {.weight = stored.heads[h],
                    .row_begin = 0,
                    .row_end = matrices.rows,
                    .x = Window(in, 0, h),
                    .x_stride = in.tensor.cols,
                    .tokens = rows_,
                    .y = Window(out, 0, h),
                    .y_stride = out.tensor.cols,
                    .exact = layout_.exact || precision_ == Precision::kFloat});
    } else {
      MatmulRounded(isa_, {.weight = stored.heads[h],
                           .row_begin = 0,
                           .row_end = matrices.rows,
                           .form = form,
                           .x = &rounded_[static_cast<size_t>(h) * static_cast<size_t>(rows_) * stride],
                           .x_stride = stride,
                           .tokens = rows_,
                           .y = Window(out, 0, h),
                           .y_stride = out.tensor.cols});
    }
  });
}

void CpuDevice::Rope(const RopeTable& table, HeadView in, HeadView out) {
  const StoredRope& rope = ropes_[table.id];
  const int pairs = table.dim / 2;
  const bool interleaved = rope.layout == RopeLayout::kInterleaved;
  pool_.Run(rows_, [&](int t, int) {
    for (int i = 0; i < pairs; ++i) {
      // fp64: an fp32 product of position and frequency is off by up to 0.01 rad at 256k positions.
      const double angle = static_cast<double>(layout_.positions[t]) * rope.inverse[i];
      const float c = static_cast<float>(std::cos(angle)) * rope.multiplier;
      const float s = static_cast<float>(std::sin(angle)) * rope.multiplier;
      const int first = interleaved ? 2 * i : i;
      const int second = interleaved ? 2 * i + 1 : i + pairs;
      for (int h = 0; h < in.heads; ++h) {
        const float* x = Window(in, t, h);
        float* y = Window(out, t, h);
        const float x0 = x[first];
        const float x1 = x[second];
        y[first] = x0 * c - x1 * s;
        y[second] = x1 * c + x0 * s;
      }
    }
  });
}

void CpuDevice::Copy(HeadView in, int width, HeadView out) {
  for (int t = 0; t < rows_; ++t) {
    for (int h = 0; h < in.heads; ++h) std::copy_n(Window(in, t, h), width, Window(out, t, h));
  }
}

void CpuDevice::SwiGlu(Tensor gate, Tensor up) {
  NUMOE_CHECK_EQ(gate.cols, up.cols);
  pool_.Run(rows_, [&](int t, int) { numoe::SwiGlu(isa_, Row(gate, t), Row(up, t), gate.cols); });
}

void CpuDevice::WriteKv(LayerId layer, Tensor rows) {
  NUMOE_CHECK_EQ(rows.cols, cache_.spec().row_width);
  for (int t = 0; t < rows_; ++t) {
    ops_.to_bf16(Row(rows, t), cache_.Row(layout_, layer, layout_.sequences[t], layout_.positions[t]),
                 rows.cols);
  }
}

void CpuDevice::Attend(const AttendArgs& args) {
  attention_.Attend({.layout = &layout_,
                     .cache = &cache_,
                     .args = args,
                     .query = Row(args.query, 0),
                     .out = Row(args.out, 0),
                     .precision = StepPrecision()});
}

void CpuDevice::Route(const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) {
  const StoredGate& stored = gates_[gate.id];
  NUMOE_CHECK_EQ(stored.weight.size(), static_cast<size_t>(gate.experts) * in.cols);
  NUMOE_CHECK_EQ(routes.experts_per_token, params.experts_per_token);
  StoredRoutes& table = routes_[routes.id];
  pool_.Run(rows_, [&](int t, int) {
    GateSelector selector(params, gate.experts);
    std::vector<float> logits(gate.experts);
    for (int e = 0; e < gate.experts; ++e) {
      logits[e] = ops_.dot(Row(in, t), &stored.weight[static_cast<size_t>(e) * in.cols], in.cols);
    }
    const size_t k = params.experts_per_token;
    selector.Select(logits, stored.bias, absl::MakeSpan(&table.experts[t * k], k),
                    absl::MakeSpan(&table.weights[t * k], k));
  });
}

absl::Status CpuDevice::StartExperts(ExpertBackend& experts, LayerId layer, Tensor in, RouteTable routes) {
  const StoredRoutes& table = routes_[routes.id];
  const size_t entries = static_cast<size_t>(rows_) * routes.experts_per_token;
  return experts.Start({.layer = layer,
                        .tokens = rows_,
                        .hidden_size = in.cols,
                        .experts_per_token = routes.experts_per_token,
                        .exact = layout_.exact,
                        .hidden = absl::MakeSpan(Row(in, 0), static_cast<size_t>(rows_) * in.cols),
                        .experts = absl::MakeSpan(table.experts.data(), entries),
                        .weights = absl::MakeSpan(table.weights.data(), entries)});
}

absl::Status CpuDevice::JoinExperts(ExpertBackend& experts, Tensor out) {
  return experts.Finish(absl::MakeSpan(Row(out, 0), static_cast<size_t>(rows_) * out.cols));
}

void CpuDevice::SelectLogitRows(Tensor in, Tensor out) {
  NUMOE_CHECK_EQ(in.cols, out.cols);
  for (size_t r = 0; r < layout_.logit_rows.size(); ++r) {
    std::copy_n(Row(in, layout_.logit_rows[r]), in.cols, Row(out, static_cast<int>(r)));
  }
  rows_ = static_cast<int>(layout_.logit_rows.size());
}

absl::StatusOr<absl::Span<const float>> CpuDevice::ReadLogits(Tensor logits) {
  return absl::MakeConstSpan(Row(logits, 0), static_cast<size_t>(rows_) * logits.cols);
}

std::string CpuDevice::Describe() const {
  return fmt::format("cpu, isa {}, {} threads", IsaName(isa_), pool_.threads());
}

}  // namespace numoe
