// The operations of a step as launches: from handles to addresses, and which kernel for which shape.
#include <algorithm>

#include "common/base/check.h"
#include "coordinator/device/cuda/cuda_device.h"
#include "coordinator/device/cuda/kernels/dense_expand.h"
#include "coordinator/device/cuda/kernels/gate.h"

namespace numoe::cuda {

// The cosines and sines of this step's positions, for all layers.
void CudaDevice::PlanTurns() {
  for (size_t r = 0; r < ropes_.size(); ++r) {
    const StoredRope& rope = ropes_[r];
    LaunchRopeTurns({.positions = Tables().positions,
                     .inverse = rope.inverse,
                     .multiplier = rope.multiplier,
                     .turns = reinterpret_cast<float*>(turns_[r]->device()),
                     .rows = rows_,
                     .pairs = rope.dim / 2},
                    stream_);
  }
}

void CudaDevice::Embed(const Matrix& table, Tensor out) {
  if (!Enqueues()) return;
  LaunchEmbed({.bf16 = embeddings_[static_cast<size_t>(table.id)].rows,
               .tokens = Tables().tokens,
               .out = Data<float>(out),
               .rows = rows_,
               .hidden = out.cols},
              stream_);
}

void CudaDevice::RmsNorm(HeadView in, int width, const Vector& weight, float eps, HeadView out) {
  if (!Enqueues()) return;
  const auto launch = [&](auto windows) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(windows.data)>>;
    LaunchRmsNorm(RmsNormArgs<T>{.in = windows,
                                 .out = View<Bf16>(out),
                                 .weight = vectors_[static_cast<size_t>(weight.id)],
                                 .eps = eps,
                                 .rows = rows_,
                                 .width = width},
                  stream_);
  };
  if (At(in.tensor).use == TensorUse::kActivation) {
    launch(View<const Bf16>(in));
  } else {
    launch(View<const float>(in));
  }
}

GemmTarget CudaDevice::TargetOf(const LinearTarget& target) const {
  const Tensor tensor = target.out.tensor;
  const bool activation = At(tensor).use == TensorUse::kActivation;
  NUMOE_CHECK(!(activation && target.accumulate)) << "sums are kept in the residual stream only";
  GemmTarget gemm{.matrix = matrices_[static_cast<size_t>(target.matrix.id)], .out_stride = tensor.cols};
  if (activation) {
    gemm.out = Data<Bf16>(tensor) + target.out.offset;
  } else {
    gemm.out = Data<float>(tensor) + target.out.offset;
    gemm.output = target.accumulate ? GemmOutput::kAddFp32 : GemmOutput::kFp32;
  }
  return gemm;
}

// Targets of one launch share their format; those of a Linear may differ.
void CudaDevice::Multiply(const Bf16* x, int64_t x_stride, absl::Span<const GemmTarget> targets) {
  std::vector<GemmTarget> tiled;
  for (const GemmTarget& target : targets) {
    if (UsesLibrary(target.matrix, rows_, bucket_.exact)) {
      MultiplyExpanded(x, x_stride, target);
    } else {
      tiled.push_back(target);
    }
  }
  for (int format = 0; format < kDeviceFormats; ++format) {
    GemmArgs args{.x = x, .x_stride = x_stride, .rows = rows_};
    GemmShape shape{.target_count = 0,
                    .tokens = rows_,
                    .multiprocessors = runtime_->facts().multiprocessors,
                    .exact = bucket_.exact};
    for (const GemmTarget& target : tiled) {
      if (target.matrix.format != static_cast<DeviceFormat>(format)) continue;
      NUMOE_CHECK_LT(args.target_count, kGemmTargetsMax);
      shape.panels[shape.target_count++] = PanelCount(target.matrix.rows, target.matrix.gated);
      shape.cols = target.matrix.cols;
      args.targets[args.target_count++] = target;
    }
    if (args.target_count > 0) LaunchPlanned(shape, args);
  }
}

// Many tokens: the matrix library on a row-major BF16 copy of the matrix (kernels/dense_expand.h).
void CudaDevice::MultiplyExpanded(const Bf16* x, int64_t x_stride, const GemmTarget& target) {
  const DeviceMatrix& matrix = target.matrix;
  auto* weights = reinterpret_cast<Bf16*>(library_weights_->device());
  LaunchExpand({.matrix = matrix, .out = weights, .out_stride = matrix.cols}, stream_);
  const int columns = matrix.rows * (matrix.gated ? 2 : 1);
  void* const out = matrix.gated ? library_gated_->device() : target.out;
  runtime_->Multiply({.a = x,
                      .b = weights,
                      .c = out,
                      .rows = rows_,
                      .columns = columns,
                      .depth = matrix.cols,
                      .a_stride = x_stride,
                      .b_stride = matrix.cols,
                      .c_stride = matrix.gated ? columns : target.out_stride,
                      .c_is_float = target.output != GemmOutput::kBf16,
                      .accumulate = target.output == GemmOutput::kAddFp32},
                     stream_);
  if (!matrix.gated) return;
  const auto* halves = static_cast<const Bf16*>(out);
  NUMOE_CHECK_EQ(target.out_stride, matrix.rows);
  LaunchSiluMul({.gate = halves,
                 .up = halves + matrix.rows,
                 .in_stride = columns,
                 .out = static_cast<Bf16*>(target.out),
                 .rows = rows_,
                 .width = matrix.rows},
                stream_);
}

void CudaDevice::LaunchPlanned(const GemmShape& shape, GemmArgs& args) {
  args.plan = PlanGemm(shape);
  NUMOE_CHECK_LE(args.plan.partial_bytes(), partials_->bytes());
  NUMOE_CHECK_LE(static_cast<size_t>(args.plan.arrivals()) * sizeof(uint32_t), arrivals_->bytes());
  args.partials = reinterpret_cast<float*>(partials_->device());
  args.arrivals = reinterpret_cast<uint32_t*>(arrivals_->device());
  LaunchGemm(args, stream_);
}

void CudaDevice::Linear(Tensor in, absl::Span<const LinearTarget> targets) {
  if (!Enqueues()) return;
  std::vector<GemmTarget> gemm;
  for (const LinearTarget& target : targets) gemm.push_back(TargetOf(target));
  Multiply(Data<const Bf16>(in), in.cols, gemm);
}

void CudaDevice::GatedLinear(Tensor in, const GatedMatrix& matrices, Tensor out) {
  if (!Enqueues()) return;
  Multiply(Data<const Bf16>(in), in.cols,
           {{.matrix = gated_[static_cast<size_t>(matrices.id)],
             .out = Data<Bf16>(out),
             .out_stride = out.cols,
             .output = GemmOutput::kBf16}});
}

// out[t, h] = matrix h . in[t, h].
void CudaDevice::MultiplyHeads(const DeviceHeads& matrices, const Windows<const Bf16>& in,
                               const Windows<Bf16>& out, int rows) {
  GemmArgs args{.target_count = 1,
                .x = in.data + in.offset,
                .x_stride = in.row_stride,
                .x_group_stride = in.stride,
                .rows = rows,
                .groups = matrices.heads,
                .group_bytes = matrices.head_bytes};
  args.targets[0] = {.matrix = matrices.first,
                     .out = out.data + out.offset,
                     .out_stride = out.row_stride,
                     .out_group_stride = out.stride};
  GemmShape shape{.cols = matrices.first.cols,
                  .tokens = rows,
                  .groups = matrices.heads,
                  .multiprocessors = runtime_->facts().multiprocessors,
                  .exact = bucket_.exact};
  shape.panels[0] = PanelCount(matrices.first.rows, false);
  LaunchPlanned(shape, args);
}

void CudaDevice::Rope(const RopeTable& table, HeadView in, HeadView out) {
  if (!Enqueues()) return;
  const StoredRope& rope = ropes_[static_cast<size_t>(table.id)];
  LaunchRope({.in = View<const Bf16>(in),
              .out = View<Bf16>(out),
              .turns = reinterpret_cast<const float*>(turns_[static_cast<size_t>(table.id)]->device()) +
                       int64_t{used().first} * rope.dim,
              .interleaved = rope.layout == RopeLayout::kInterleaved,
              .rows = rows_,
              .pairs = rope.dim / 2},
             stream_);
}

void CudaDevice::WriteKv(LayerId layer, Tensor rows) {
  if (!Enqueues()) return;
  LaunchWriteKv(WriteKvArgs<Bf16>{.cache = cache_layers_[static_cast<size_t>(layer)],
                                  .tables = Tables(),
                                  .source = Data<const Bf16>(rows),
                                  .stride = rows.cols,
                                  .rows = rows_},
                stream_);
}

void CudaDevice::Route(const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) {
  if (!Enqueues()) return;
  const StoredGate& stored = gates_[static_cast<size_t>(gate.id)];
  const StoredRoutes& table = routes_[static_cast<size_t>(routes.id)];
  const int64_t entry = int64_t{used().first} * params.experts_per_token;
  auto* logits = reinterpret_cast<float*>(gate_logits_->device());
  LaunchGateLogits(GateLogitsArgs<float>{.in = Data<const Bf16>(in),
                                         .weight = stored.weight,
                                         .logits = logits,
                                         .rows = rows_,
                                         .hidden = stored.hidden,
                                         .experts = stored.experts},
                   stream_);
  LaunchGateSelect({.logits = logits,
                    .bias = stored.bias,
                    .positions = Tables().positions,
                    .chosen = reinterpret_cast<int32_t*>(table.experts->device()) + entry,
                    .weights = reinterpret_cast<float*>(table.weights->device()) + entry,
                    .rows = rows_,
                    .experts = stored.experts,
                    .experts_per_token = params.experts_per_token,
                    .sigmoid = params.scoring == GateScoring::kSigmoidNoAuxTc,
                    .n_group = params.n_group,
                    .topk_group = params.topk_group,
                    .norm_topk_prob = params.norm_topk_prob,
                    .scaling = params.scaling,
                    .deferred_experts = params.deferred_experts},
                   stream_);
}

void CudaDevice::SelectLogitRows(Tensor in, Tensor out) {
  NUMOE_CHECK(used_ == StepSpan::kAll) << "logits are of all rows";
  const int wanted = mode_ == Mode::kEager ? logit_rows_ : rows_;
  if (Enqueues()) {
    LaunchSelectRows({.in = Data<const float>(in),
                      .index = buffers_->logit_rows(),
                      .out = Data<float>(out),
                      .rows = wanted,
                      .row_bytes = int64_t{in.cols} * static_cast<int64_t>(sizeof(float))},
                     stream_);
  }
  rows_ = wanted;
}

}  // namespace numoe::cuda
