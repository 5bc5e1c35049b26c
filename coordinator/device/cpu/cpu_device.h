// CpuDevice: the coordinator's model on host memory, for machines without a GPU.
//
// Activations are fp32; dense weights are packed for the matrix kernels in their published format, or in
// another that was asked for (the absorbed halves of kv_b_proj and the gate stay BF16 and exact); the KV
// cache is BF16 or FP8 (cache_memory.h). Every operation is synchronous and is split over one thread pool by
// output, so results do not depend on the number of threads. Owned by the engine thread. One that only
// measures loads nothing and counts what loading would take.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/kernels/kernels.h"
#include "common/threading/thread_pool.h"
#include "common/topology/node_memory.h"
#include "coordinator/device/cpu/cache_memory.h"
#include "coordinator/device/cpu/cpu_attention.h"
#include "coordinator/device/cpu/input_rows.h"
#include "coordinator/device/cpu/latent_plan.h"
#include "coordinator/device/cpu/vector_ops.h"
#include "coordinator/device/device.h"

namespace numoe {

struct CpuDeviceOptions {
  int step_tokens_max = 2048;  // rows of every activation tensor
  std::vector<int> cpus;       // one thread each; the first is the calling thread's
  std::string isa = "auto";
  Precision precision = Precision::kFast;  // of activations where they meet weights
  std::string dense_format = "auto";       // of dense matrices: auto (as published) | bf16 | int8 | int4
  bool measure_only = false;               // may load models, but run none
};

/// Outputs [row_begin, row_end), whole panels, of one of a call's matrices.
struct LinearTask {
  int part = 0;
  int row_begin = 0;
  int row_end = 0;
};

class CpuDevice final : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Create(const CpuDeviceOptions& options);

  Tensor NewTensor(int cols, TensorUse use = TensorUse::kActivation, int rows = 0) override;
  RouteTable NewRouteTable(int experts_per_token) override;
  absl::StatusOr<Matrix> LoadMatrix(const MatrixView& source) override;
  absl::StatusOr<GatedMatrix> LoadGated(const MatrixView& gate, const MatrixView& up) override;
  absl::StatusOr<Matrix> LoadEmbedding(const MatrixView& source) override;
  absl::StatusOr<HeadMatrices> LoadHeads(absl::Span<const float> values, int heads, int rows,
                                         int cols) override;
  Vector LoadVector(absl::Span<const float> values) override;
  RopeTable LoadRope(absl::Span<const float> inverse_frequencies, float multiplier,
                     RopeLayout layout) override;
  Gate LoadGate(absl::Span<const float> weight, absl::Span<const float> bias, int experts) override;
  uint64_t KvCacheBytes(const KvCacheSpec& spec) const override;
  absl::Status ReserveKvCache(const KvCacheSpec& spec) override;

  void BeginStep(const StepLayout& layout) override;
  StepWay Way() const override {
    return at(StepSpan::kAll).layout.second_half > 0 ? StepWay::kHalves : StepWay::kWhole;
  }
  void UseRows(StepSpan rows) override;
  void Embed(const Matrix& table, Tensor out) override;
  void RmsNorm(HeadView in, int width, const Vector& weight, float eps, HeadView out) override;
  void Linear(Tensor in, absl::Span<const LinearTarget> targets) override;
  void GatedLinear(Tensor in, const GatedMatrix& matrices, Tensor out) override;
  void Rope(const RopeTable& table, HeadView in, HeadView out) override;
  void WriteKv(LayerId layer, Tensor rows) override;
  void Attend(const AttendArgs& args) override;
  void AttendLatent(const LatentAttendArgs& args) override;
  void Route(const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) override;
  void StageExperts(LayerId layer, Tensor in, RouteTable routes) override;
  absl::Status StartExperts(ExpertBackend& experts, Tensor out) override;
  absl::Status JoinExperts(ExpertBackend& experts, Tensor out) override;
  absl::Status JoinDeferredExperts(ExpertBackend& experts, Tensor out) override;
  void SelectLogitRows(Tensor in, Tensor out) override;
  absl::StatusOr<absl::Span<const float>> ReadLogits(Tensor logits) override;
  std::string Describe() const override;

  DeviceMemory memory() const override;

 private:
  struct StoredMatrix {
    NodeMemory memory;
    PackedMatrix packed;
  };
  struct StoredEmbedding {
    NodeMemory memory;
    NodeMemory scales;
    MatrixView view;
  };
  struct StoredHeads {
    NodeMemory memory;
    std::vector<PackedMatrix> heads;
  };
  struct StoredRope {
    std::vector<float> inverse;
    float multiplier = 1.0f;
    RopeLayout layout = RopeLayout::kInterleaved;
    bool planned = false;      // turns are this step's
    std::vector<float> turns;  // [tokens][cosines, then sines of the pairs]
  };
  struct StoredGate {
    NodeMemory memory;
    PackedMatrix packed;        // in BF16 if that loses nothing; otherwise without data, and ...
    std::vector<float> weight;  // ... [experts, hidden] as it is
    std::vector<float> bias;    // [experts] or empty
  };
  struct StoredRoutes {
    std::vector<ExpertId> experts;
    std::vector<float> weights;
  };
  // Rows of the current step that may be in use together.
  struct UsedRows {
    StepLayout layout;
    int first = 0;                          // row of the step
    std::optional<AttendPlan> attend_plan;  // made by the first layer
    std::optional<LatentPlan> latent_plan;
  };

  CpuDevice(const CpuDeviceOptions& options, Isa isa, std::optional<WeightFormat> dense_format);
  const UsedRows& at(StepSpan rows) const { return step_[static_cast<size_t>(rows)]; }
  UsedRows& used() { return step_[static_cast<size_t>(used_)]; }
  const StepLayout& layout() const { return at(used_).layout; }
  // Of the rows in use.
  float* Row(Tensor tensor, int row) { return StepRow(tensor, used().first + row); }
  float* StepRow(Tensor tensor, int row) {
    return reinterpret_cast<float*>(tensors_[static_cast<size_t>(tensor.id)].data()) +
           int64_t{row} * tensor.cols;
  }
  absl::Span<float> CallRows(Tensor out);
  float* Window(const HeadView& view, int row, int head) {
    return Row(view.tensor, row) + int64_t{head} * view.stride + view.offset;
  }
  absl::StatusOr<NodeMemory> StoreWeights(size_t bytes);
  absl::StatusOr<NodeMemory> CopyOf(absl::Span<const std::byte> bytes);
  void Touch(absl::Span<std::byte> memory);
  // How exactly this step's activations must meet weights, and the form in which they meet those in `format`.
  Precision StepPrecision() const;
  ActivationForm FormFor(WeightFormat format) const;
  // Calls body for every token of the step, on the pool where there are many.
  void ForTokens(absl::FunctionRef<void(int token)> body) { ForTokens({0, rows_}, body); }
  void ForTokens(TokenRun run, absl::FunctionRef<void(int token)> body);
  // The step's rows of `in` in one form; rounded once until rounded_now_ is cleared.
  InputRows InputsIn(ActivationForm form, Tensor in);
  void RunLinear(const PackedMatrix& weight, int row_begin, int row_end, const InputRows& x,
                 const LinearTarget& target, int thread);
  void PlanTurns(StoredRope& rope);
  void StoreCacheRow(const float* values, const CacheRowForm& form, const CacheMemory::Row& row) const;
  void AbsorbQueries(const LatentAttendArgs& args, int rope);
  void HeadProducts(const StoredHeads& matrices, HeadView in, HeadView out);
  void GateLogits(const StoredGate& gate, Tensor in);

  const int step_tokens_max_;
  const bool measure_only_;
  DeviceMemory memory_;
  int widest_ = 0;        // tensor
  int gate_experts_ = 0;  // of the gate with most
  const Isa isa_;
  const Precision precision_;
  const std::optional<WeightFormat> dense_format_;  // nullopt: as published
  const VectorOps& ops_;
  ThreadPool pool_;
  std::vector<NodeMemory> tensors_;
  std::vector<StoredMatrix> matrices_;
  std::vector<std::pair<Matrix, Matrix>> gated_;  // gate, up
  std::vector<StoredEmbedding> embeddings_;
  std::vector<StoredHeads> head_matrices_;
  std::vector<std::vector<float>> vectors_;
  std::vector<StoredRope> ropes_;
  std::vector<StoredGate> gates_;
  std::vector<StoredRoutes> routes_;
  CacheMemory cache_;
  CpuAttention attention_;

  std::array<UsedRows, 3> step_;  // by StepSpan
  StepSpan used_ = StepSpan::kAll;
  int rows_ = 0;          // in use, or logit rows after SelectLogitRows
  ExpertCall staged_;     // from StageExperts to StartExperts
  int staged_first_ = 0;  // its first row
  RowRange called_;       // rows of the call that is out
  static constexpr size_t kForms = kActivationForms;
  std::array<std::vector<std::byte>, kForms> rounded_;  // by ActivationForm: the input of a Linear
  std::array<bool, kForms> rounded_now_ = {};           // of this Linear, GatedLinear or Route
  std::vector<LinearTask> linear_tasks_;                // of this Linear or GatedLinear
  std::vector<float> gate_logits_;                      // [tokens, experts]
  std::vector<std::vector<float>> thread_sums_;         // [threads] outputs of a task before they are added
};

}  // namespace numoe
