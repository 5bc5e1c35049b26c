// CudaStore: a model's data on an NVIDIA GPU, and the memory that it needs.
//
// Without a runtime it stores nothing and only counts, with which memory is planned on machines without a
// GPU. Activations are BF16, the residual stream and logits fp32. Weights stay in their published format if
// the kernels decode it (kernels/dense_layout.h), and are BF16 otherwise; norms, gates and rotation tables
// are fp32. kernels/cache.h describes the layout of the KV cache. One thread fills the store, at load time;
// steps only write to its tensors, its scratch and its cache.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/execution/device/cuda/kernels/attention_plan.h"
#include "coordinator/execution/device/cuda/kernels/attention_prefill.h"
#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "coordinator/execution/device/cuda/kernels/dense_plan.h"
#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/device/cuda/sampling_sizes.h"
#include "coordinator/execution/device/cuda/step_buffers.h"
#include "coordinator/execution/device/cuda/weight_store.h"
#include "coordinator/execution/device/device.h"

namespace numoe::execution::cuda {

class CudaStore final : public DeviceStore {
 public:
  struct StoredTensor {
    std::unique_ptr<Memory> memory;
    int cols = 0;
    int rows = 0;
    TensorUse use = TensorUse::kActivation;
  };
  struct StoredRope {
    const float* inverse = nullptr;  // [dim / 2]
    int dim = 0;
    float multiplier = 1.0f;
    RopeLayout layout = RopeLayout::kInterleaved;
    std::unique_ptr<Memory> cos_sin;  // of the step's rows: [rows][cosines, then sines]
  };
  struct StoredGate {
    const float* weight = nullptr;  // [experts, hidden]
    const float* bias = nullptr;    // [experts] or null
    int experts = 0;
    int hidden = 0;
  };
  struct StoredRoutes {
    std::unique_ptr<Memory> experts;  // int32 [rows, experts_per_token]
    std::unique_ptr<Memory> weights;  // fp32 [rows, experts_per_token]
  };
  struct StoredCache {
    CacheShape shape;
    std::vector<CacheLayer> layers;  // empty until the memory is reserved
  };
  /// Scratch memory that attention writes and reads within one layer.
  struct AttendScratch {
    std::unique_ptr<Memory> lists, parts;  // for decode plans
    // MLA's prefill expands the cache to the keys and values of all heads for kExpandedRows positions.
    std::unique_ptr<Memory> gathered, expanded_keys, expanded_values;
    std::unique_ptr<Memory> prefill_sums, prefill_maxima, prefill_totals;
  };
  /// Scratch memory that products write and read within one operation.
  struct ProductScratch {
    std::unique_ptr<Memory> library_weights;  // BF16 [rows, cols] of the largest matrix for the library
    std::unique_ptr<Memory> library_gated;    // BF16 [rows of a step, 2 * rows] of the widest such gated pair
    std::unique_ptr<Memory> partials;         // partial sums of products with split inputs
    std::unique_ptr<Memory> arrivals;         // counters of their blocks, zero between launches
    std::unique_ptr<Memory> gate_logits;      // fp32 [rows, experts of the largest gate]
  };
  static constexpr int kExpandedRows = 8192;

  /// If `runtime` is null, the store only counts what a card with these facts would hold. `runtime` must
  /// outlive the store.
  CudaStore(const StepBounds& bounds, const DeviceFacts& facts, Runtime* runtime, Stream stream)
      : bounds_(bounds),
        facts_(facts),
        runtime_(runtime),
        stream_(stream),
        weights_(runtime),
        scratch_bytes_(StepBytes(bounds)) {}

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
  /// Counts the memory of a device's slots and windows; the device allocates them itself.
  void CountExperts(const ExpertSlotSpec& spec);
  DeviceMemory memory() const {
    return {.weights = weights_.bytes(),
            .kv_cache = cache_bytes_,
            .scratch = scratch_bytes_,
            .experts = expert_bytes_,
            .windows = window_bytes_};
  }

  const StepBounds& bounds() const { return bounds_; }
  const DeviceFacts& facts() const { return facts_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor& tensor(Tensor t) const { return tensors_.at(static_cast<size_t>(t.id)); }
  const DeviceMatrix& matrix(const Matrix& m) const { return matrices_.at(static_cast<size_t>(m.id)); }
  const DeviceMatrix& gated(const GatedMatrix& m) const { return gated_.at(static_cast<size_t>(m.id)); }
  const Bf16* embedding(const Matrix& m) const { return embeddings_.at(static_cast<size_t>(m.id)); }
  const DeviceHeads& heads(const HeadMatrices& m) const { return heads_.at(static_cast<size_t>(m.id)); }
  const float* vector(const Vector& v) const { return vectors_.at(static_cast<size_t>(v.id)); }
  const std::vector<StoredRope>& ropes() const { return ropes_; }
  const StoredGate& gate(const Gate& g) const { return gates_.at(static_cast<size_t>(g.id)); }
  const StoredRoutes& routes(RouteTable r) const { return routes_.at(static_cast<size_t>(r.id)); }
  const CacheShape& cache_shape(int id) const { return caches_.at(static_cast<size_t>(id)).shape; }
  const CacheLayer& cache_layer(CachePlace place) const {
    return caches_.at(static_cast<size_t>(place.cache)).layers.at(static_cast<size_t>(place.layer));
  }
  /// The shape that all caches share: the same row and the same number of query heads (CheckCaches).
  const CacheShape& attended() const { return caches_.front().shape; }
  const AttendScratch& attend_scratch() const { return attend_; }
  const ProductScratch& product_scratch() const { return products_; }
  const LatentRunShape& mla() const { return mla_; }
  const SamplingSizes& sampling() const { return sampling_; }

  /// Whether the cache holds MLA's latents.
  bool latent() const { return attended().row.value_width == 0; }
  /// The number of rows of a step whose attention is planned together, limited by the memory for partial
  /// results.
  int AttendRows(bool exact) const;
  /// The bounds of a plan of decode attention, valid for any kernel.
  DecodeBounds AttendBounds(int rows, int blocks_per_sequence, bool exact) const;
  /// Whether the matrix library computes a product of `rows` rows, with a row-major BF16 copy of the matrix.
  bool UsesLibrary(const DeviceMatrix& matrix, int rows, bool exact) const;

 private:
  /// The bytes of a step's memory other than tensors: tables, and the counters of the hand-over to workers.
  static uint64_t StepBytes(const StepBounds& bounds);
  /// Allocates device memory that steps use; an error is kept and returned by ReserveKvCache, which is called
  /// last.
  std::unique_ptr<Memory> Scratch(size_t bytes);
  int AttendWidth() const {
    const CacheRow& row = attended().row;
    return row.value_width > 0 ? row.value_width : row.key_width - row.plain_width;
  }
  absl::Status CheckCaches() const;
  absl::Status PlaceCaches(const KvCacheSize& size);
  void ReserveAttention();
  void ReserveExpansion();
  void ReserveLibrary();
  void PlanDrawing();

  const StepBounds bounds_;
  const DeviceFacts facts_;
  Runtime* const runtime_;
  const Stream stream_;
  WeightStore weights_;
  uint64_t scratch_bytes_;
  uint64_t cache_bytes_ = 0;
  uint64_t expert_bytes_ = 0;
  uint64_t window_bytes_ = 0;
  absl::Status first_error_;
  std::vector<StoredTensor> tensors_;
  std::vector<DeviceMatrix> matrices_;
  std::vector<DeviceMatrix> gated_;
  std::vector<const Bf16*> embeddings_;
  std::vector<DeviceHeads> heads_;
  std::vector<const float*> vectors_;
  std::vector<StoredRope> ropes_;
  std::vector<StoredGate> gates_;
  std::vector<StoredRoutes> routes_;
  std::vector<StoredCache> caches_;
  std::unique_ptr<Memory> cache_memory_;  // for all caches
  AttendScratch attend_;
  ProductScratch products_;
  LatentRunShape mla_;
  SamplingSizes sampling_;  // for the only tensor of logits
};

}  // namespace numoe::execution::cuda
