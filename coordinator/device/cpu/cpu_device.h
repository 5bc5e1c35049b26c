// CpuDevice: the coordinator's model on host memory, for machines without a GPU.
//
// Activations are fp32; dense weights are packed for the matrix kernels in their published format; the KV
// cache is BF16 (cache_memory.h). Every operation is
// synchronous and is split over one thread pool by output, so results do not depend on the number of threads.
// Owned by the engine thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/kernels/kernels.h"
#include "common/threading/thread_pool.h"
#include "common/topology/node_memory.h"
#include "coordinator/device/cpu/cache_memory.h"
#include "coordinator/device/cpu/cpu_attention.h"
#include "coordinator/device/cpu/vector_ops.h"
#include "coordinator/device/device.h"

namespace numoe {

struct CpuDeviceOptions {
  int step_tokens_max = 2048;  // rows of every activation tensor
  std::vector<int> cpus;       // one thread each; the first is the calling thread's
  std::string isa = "auto";
  Precision precision = Precision::kFast;  // of activations where they meet weights
};

class CpuDevice final : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Create(const CpuDeviceOptions& options);

  Tensor NewTensor(int cols) override;
  RouteTable NewRouteTable(int experts_per_token) override;
  absl::StatusOr<Matrix> LoadMatrix(const MatrixView& source) override;
  absl::StatusOr<Matrix> LoadEmbedding(const MatrixView& source) override;
  absl::StatusOr<HeadMatrices> LoadHeads(absl::Span<const float> values, int heads, int rows,
                                         int cols) override;
  Vector LoadVector(absl::Span<const float> values) override;
  RopeTable LoadRope(absl::Span<const float> inverse_frequencies, float multiplier,
                     RopeLayout layout) override;
  Gate LoadGate(absl::Span<const float> weight, absl::Span<const float> bias, int experts) override;
  absl::Status ReserveKvCache(const KvCacheSpec& spec) override;

  void BeginStep(const StepLayout& layout) override;
  void Embed(const Matrix& table, Tensor out) override;
  void RmsNorm(HeadView in, int width, const Vector& weight, float eps, HeadView out) override;
  void Linear(const Matrix& matrix, Tensor in, Tensor out, bool accumulate) override;
  void HeadLinear(const HeadMatrices& matrices, HeadView in, HeadView out) override;
  void Rope(const RopeTable& table, HeadView in, HeadView out) override;
  void Copy(HeadView in, int width, HeadView out) override;
  void SwiGlu(Tensor gate, Tensor up) override;
  void WriteKv(LayerId layer, Tensor rows) override;
  void Attend(const AttendArgs& args) override;
  void Route(const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) override;
  absl::Status StartExperts(ExpertBackend& experts, LayerId layer, Tensor in, RouteTable routes) override;
  absl::Status JoinExperts(ExpertBackend& experts, Tensor out) override;
  void SelectLogitRows(Tensor in, Tensor out) override;
  absl::StatusOr<absl::Span<const float>> ReadLogits(Tensor logits) override;
  std::string Describe() const override;

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
  };
  struct StoredGate {
    std::vector<float> weight;  // [experts, hidden]
    std::vector<float> bias;    // [experts] or empty
  };
  struct StoredRoutes {
    std::vector<ExpertId> experts;
    std::vector<float> weights;
  };

  CpuDevice(const CpuDeviceOptions& options, Isa isa);
  float* Row(Tensor tensor, int row) { return tensors_[tensor.id].data() + int64_t{row} * tensor.cols; }
  float* Window(const HeadView& view, int row, int head) {
    return Row(view.tensor, row) + int64_t{head} * view.stride + view.offset;
  }
  // How exactly this step's activations must meet weights, and the form in which they meet those in `format`.
  Precision StepPrecision() const;
  ActivationForm FormFor(WeightFormat format) const;
  // Rounds this step's rows of `width` values each to rounded_; the rows' stride in bytes.
  size_t RoundRows(ActivationForm form, HeadView in, int width);

  const int step_tokens_max_;
  const Isa isa_;
  const Precision precision_;
  const VectorOps& ops_;
  ThreadPool pool_;
  std::vector<std::vector<float>> tensors_;
  std::vector<StoredMatrix> matrices_;
  std::vector<StoredEmbedding> embeddings_;
  std::vector<StoredHeads> head_matrices_;
  std::vector<std::vector<float>> vectors_;
  std::vector<StoredRope> ropes_;
  std::vector<StoredGate> gates_;
  std::vector<StoredRoutes> routes_;
  CacheMemory cache_;
  CpuAttention attention_;

  StepLayout layout_;                  // of the current step
  int rows_ = 0;                       // tokens, or logit rows after SelectLogitRows
  std::vector<std::byte> rounded_;     // [tokens, heads] rows in the form that a matrix wants
  std::vector<float> linear_scratch_;  // [tokens, cols] of an accumulating Linear
};

}  // namespace numoe
