// CpuStore: a model's data in host memory: packed weights, tensors and the KV cache.
//
// Dense weights are packed for the matrix kernels in their published format, or in another format that was
// requested; the halves of kv_b_proj and the gates stay BF16 and exact. Tensors are fp32. A store that only
// measures stores nothing and counts the memory that a model would need. Filled by the engine's thread; steps
// only write to its tensors and its cache.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "common/kernels/kernels.h"
#include "common/threading/thread_pool.h"
#include "common/topology/node_memory.h"
#include "coordinator/execution/device/cpu/cache_memory.h"
#include "coordinator/execution/device/device.h"

namespace numoe::execution {

class CpuStore final : public DeviceStore {
 public:
  struct Options {
    int step_tokens_max = 0;                   // rows of every tensor
    std::optional<WeightFormat> dense_format;  // the published format if nullopt
    bool measure_only = false;
  };
  struct RopeAngles {
    std::vector<float> inverse;  // [dim / 2], radians per position
    float multiplier = 1.0f;     // factor of cosine and sine
    RopeLayout layout = RopeLayout::kInterleaved;
  };
  struct StoredGate {
    NodeMemory memory;
    PackedMatrix packed;        // BF16 if that is exact; otherwise without data, and `weight` is used
    std::vector<float> weight;  // [experts, hidden] in fp32, or empty
    std::vector<float> bias;    // [experts] or empty
  };

  /// `pool` must outlive the store. Its threads touch the memory first that they will use.
  CpuStore(const Options& options, ThreadPool& pool) : options_(options), pool_(pool) {}

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
  Cache NewCache(const CacheShape& shape) override;
  uint64_t KvCacheBytes(const KvCacheSize& size) const override;

  absl::Status ReserveKvCache(const KvCacheSize& size);
  DeviceMemory memory() const;
  int step_tokens_max() const { return options_.step_tokens_max; }
  bool measures_only() const { return options_.measure_only; }

  /// Row `row` of the tensor, [tensor.cols], followed by the tensor's later rows.
  float* Row(Tensor tensor, int row) const {
    NUMOE_DCHECK(static_cast<size_t>(tensor.id) < tensors_.size());
    return reinterpret_cast<float*>(tensors_[static_cast<size_t>(tensor.id)].data()) +
           int64_t{row} * tensor.cols;
  }
  /// The window of `head` in that row.
  float* Window(const HeadView& view, int row, int head) const {
    return Row(view.tensor, row) + int64_t{head} * view.stride + view.offset;
  }
  const PackedMatrix& matrix(const Matrix& m) const { return matrices_.at(static_cast<size_t>(m.id)).packed; }
  const std::pair<Matrix, Matrix>& gated(const GatedMatrix& m) const {
    return gated_.at(static_cast<size_t>(m.id));
  }
  const MatrixView& embedding(const Matrix& m) const {
    return embeddings_.at(static_cast<size_t>(m.id)).view;
  }
  const std::vector<PackedMatrix>& heads(const HeadMatrices& m) const {
    return heads_.at(static_cast<size_t>(m.id)).heads;
  }
  const float* vector(const Vector& v) const { return vectors_.at(static_cast<size_t>(v.id)).data(); }
  const RopeAngles& rope(const RopeTable& r) const { return ropes_.at(static_cast<size_t>(r.id)); }
  const StoredGate& gate(const Gate& g) const { return gates_.at(static_cast<size_t>(g.id)); }
  /// The routes of `count` rows, beginning with `row`: [count, experts_per_token].
  absl::Span<ExpertId> RouteExperts(RouteTable table, int row, int count);
  absl::Span<float> RouteWeights(RouteTable table, int row, int count);
  /// The cache for which NewCache returned `id`. REQUIRES: its memory is reserved.
  const CacheMemory& cache(int id) const {
    NUMOE_CHECK(0 <= id && static_cast<size_t>(id) < caches_.size()) << "cache " << id;
    return caches_[static_cast<size_t>(id)];
  }

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
  struct StoredRoutes {
    std::vector<ExpertId> experts;
    std::vector<float> weights;
  };
  absl::StatusOr<NodeMemory> StoreWeights(size_t bytes);
  absl::StatusOr<NodeMemory> CopyOf(absl::Span<const std::byte> bytes);
  void Touch(absl::Span<std::byte> memory);

  const Options options_;
  ThreadPool& pool_;
  DeviceMemory memory_;
  int widest_ = 0;        // columns of the widest tensor
  int gate_experts_ = 0;  // experts of the largest gate
  std::vector<NodeMemory> tensors_;
  std::vector<StoredMatrix> matrices_;
  std::vector<std::pair<Matrix, Matrix>> gated_;  // gate, up
  std::vector<StoredEmbedding> embeddings_;
  std::vector<StoredHeads> heads_;
  std::vector<std::vector<float>> vectors_;
  std::vector<RopeAngles> ropes_;
  std::vector<StoredGate> gates_;
  std::vector<StoredRoutes> routes_;
  std::vector<CacheShape> cache_shapes_;
  std::vector<CacheMemory> caches_;  // one for each shape
};

}  // namespace numoe::execution
