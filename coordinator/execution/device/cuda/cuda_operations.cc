#include "coordinator/execution/device/cuda/cuda_operations.h"

#include <type_traits>
#include <vector>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/cuda_products.h"
#include "coordinator/execution/device/cuda/kernels/elementwise.h"
#include "coordinator/execution/device/cuda/kernels/gate.h"

namespace numoe::execution::cuda {
namespace {

class CudaOperations final : public Operations {
 public:
  CudaOperations(const StepMemory& memory, const AttendKernels& kernels)
      : memory_(memory), products_(memory), attention_(memory, products_, kernels) {
    PlanCosSin();
    attention_.PlanStep();
  }

  void Embed(Rows rows, const Matrix& table, Tensor out) override;
  void RmsNorm(Rows rows, HeadView in, int width, const Vector& weight, float eps, HeadView out) override;
  void Linear(Rows rows, Tensor in, absl::Span<const LinearTarget> targets) override;
  void GatedLinear(Rows rows, Tensor in, const GatedMatrix& matrices, Tensor out) override;
  void Rope(Rows rows, const RopeTable& table, HeadView in, HeadView out) override;
  void WriteKv(Rows rows, CachePlace cache, Tensor values) override;
  void Attend(Rows rows, const AttendArgs& args) override { attention_.Attend(rows, args); }
  void AttendLatent(Rows rows, const LatentAttendArgs& args) override { attention_.AttendLatent(rows, args); }
  void Route(Rows rows, const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) override;

 private:
  void PlanCosSin() const;
  GemmTarget TargetOf(Rows rows, const LinearTarget& target) const;

  const StepMemory& memory_;
  const CudaProducts products_;
  const CudaAttention attention_;
};

// Computes the cosines and sines of this step's positions, for all layers.
void CudaOperations::PlanCosSin() const {
  const Rows all = memory_.frame.parts[0].rows;
  for (const CudaStore::StoredRope& rope : memory_.store.ropes()) {
    LaunchRopeCosSin({.positions = memory_.Tables(all).positions,
                      .inverse = rope.inverse,
                      .multiplier = rope.multiplier,
                      .cos_sin = reinterpret_cast<float*>(rope.cos_sin->device()),
                      .rows = all.count,
                      .pairs = rope.dim / 2},
                     memory_.stream);
  }
}

void CudaOperations::Embed(Rows rows, const Matrix& table, Tensor out) {
  LaunchEmbed({.bf16 = memory_.store.embedding(table),
               .tokens = memory_.Tables(rows).tokens,
               .out = memory_.Data<float>(rows.first, out),
               .rows = rows.count,
               .hidden = out.cols},
              memory_.stream);
}

void CudaOperations::RmsNorm(Rows rows, HeadView in, int width, const Vector& weight, float eps,
                             HeadView out) {
  NUMOE_CHECK_EQ(weight.size, width);
  const auto launch = [&](auto windows) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(windows.data)>>;
    LaunchRmsNorm(RmsNormArgs<T>{.in = windows,
                                 .out = memory_.View<Bf16>(rows, out),
                                 .weight = memory_.store.vector(weight),
                                 .eps = eps,
                                 .rows = rows.count,
                                 .width = width},
                  memory_.stream);
  };
  if (memory_.IsActivation(in.tensor)) {
    launch(memory_.View<const Bf16>(rows, in));
  } else {
    launch(memory_.View<const float>(rows, in));
  }
}

GemmTarget CudaOperations::TargetOf(Rows rows, const LinearTarget& target) const {
  const Tensor tensor = target.out.tensor;
  const bool activation = memory_.IsActivation(tensor);
  NUMOE_CHECK(!(activation && target.accumulate)) << "only the residual stream may accumulate";
  GemmTarget gemm{.matrix = memory_.store.matrix(target.matrix), .out_stride = tensor.cols};
  NUMOE_CHECK_LE(target.out.offset + gemm.matrix.rows, tensor.cols);
  if (activation) {
    gemm.out = memory_.Data<Bf16>(rows.first, tensor) + target.out.offset;
  } else {
    gemm.out = memory_.Data<float>(rows.first, tensor) + target.out.offset;
    gemm.output = target.accumulate ? GemmOutput::kAddFp32 : GemmOutput::kFp32;
  }
  return gemm;
}

void CudaOperations::Linear(Rows rows, Tensor in, absl::Span<const LinearTarget> targets) {
  std::vector<GemmTarget> gemm;
  for (const LinearTarget& target : targets) gemm.push_back(TargetOf(rows, target));
  products_.Multiply(rows.count, memory_.Data<const Bf16>(rows.first, in), in.cols, gemm);
}

void CudaOperations::GatedLinear(Rows rows, Tensor in, const GatedMatrix& matrices, Tensor out) {
  NUMOE_CHECK(matrices.cols == in.cols && matrices.rows == out.cols);
  products_.Multiply(rows.count, memory_.Data<const Bf16>(rows.first, in), in.cols,
                     {{.matrix = memory_.store.gated(matrices),
                       .out = memory_.Data<Bf16>(rows.first, out),
                       .out_stride = out.cols,
                       .output = GemmOutput::kBf16}});
}

void CudaOperations::Rope(Rows rows, const RopeTable& table, HeadView in, HeadView out) {
  const CudaStore::StoredRope& rope = memory_.store.ropes().at(static_cast<size_t>(table.id));
  LaunchRope(
      {.in = memory_.View<const Bf16>(rows, in),
       .out = memory_.View<Bf16>(rows, out),
       .cos_sin = reinterpret_cast<const float*>(rope.cos_sin->device()) + int64_t{rows.first} * rope.dim,
       .interleaved = rope.layout == RopeLayout::kInterleaved,
       .rows = rows.count,
       .pairs = rope.dim / 2},
      memory_.stream);
}

void CudaOperations::WriteKv(Rows rows, CachePlace cache, Tensor values) {
  NUMOE_CHECK_EQ(values.cols, memory_.store.cache_shape(cache.cache).row.width());
  LaunchWriteKv(WriteKvArgs<Bf16>{.cache = memory_.store.cache_layer(cache),
                                  .tables = memory_.Tables(rows),
                                  .source = memory_.Data<const Bf16>(rows.first, values),
                                  .stride = values.cols,
                                  .rows = rows.count},
                memory_.stream);
}

void CudaOperations::Route(Rows rows, const Gate& gate, const GateParams& params, Tensor in,
                           RouteTable routes) {
  NUMOE_CHECK_EQ(routes.experts_per_token, params.experts_per_token);
  const CudaStore::StoredGate& stored = memory_.store.gate(gate);
  const CudaStore::StoredRoutes& table = memory_.store.routes(routes);
  NUMOE_CHECK_EQ(stored.hidden, in.cols);
  const int64_t entry = int64_t{rows.first} * params.experts_per_token;
  auto* logits = reinterpret_cast<float*>(memory_.store.product_scratch().gate_logits->device());
  LaunchGateLogits(GateLogitsArgs<float>{.in = memory_.Data<const Bf16>(rows.first, in),
                                         .weight = stored.weight,
                                         .logits = logits,
                                         .rows = rows.count,
                                         .hidden = stored.hidden,
                                         .experts = stored.experts},
                   memory_.stream);
  LaunchGateSelect({.logits = logits,
                    .bias = stored.bias,
                    .positions = memory_.Tables(rows).positions,
                    .chosen = reinterpret_cast<int32_t*>(table.experts->device()) + entry,
                    .weights = reinterpret_cast<float*>(table.weights->device()) + entry,
                    .rows = rows.count,
                    .experts = stored.experts,
                    .experts_per_token = params.experts_per_token,
                    .sigmoid = params.scoring == GateScoring::kSigmoidNoAuxTc,
                    .n_group = params.n_group,
                    .topk_group = params.topk_group,
                    .norm_topk_prob = params.norm_topk_prob,
                    .scaling = params.scaling,
                    .deferred_experts = params.deferred_experts},
                   memory_.stream);
}

}  // namespace

std::unique_ptr<Operations> MakeCudaOperations(const StepMemory& memory, const AttendKernels& kernels) {
  return std::make_unique<CudaOperations>(memory, kernels);
}

}  // namespace numoe::execution::cuda
