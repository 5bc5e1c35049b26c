// CudaStorage: what a model keeps on an NVIDIA GPU, and how much of it: the half of the CUDA device that
// loads.
//
// Without a runtime it stores nothing and only counts, which is how memory is planned on machines without a
// GPU. Activations are BF16, the residual stream and logits fp32. Weights are held as published where the
// kernels decode them (kernels/dense_layout.h), as BF16 otherwise; norms, gates and rotation tables as fp32.
// The KV cache's layout is kernels/cache.h. One thread, at load time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/device/cuda/kernels/attention_plan.h"
#include "coordinator/device/cuda/kernels/attention_prefill.h"
#include "coordinator/device/cuda/kernels/cache.h"
#include "coordinator/device/cuda/kernels/dense_plan.h"
#include "coordinator/device/cuda/runtime.h"
#include "coordinator/device/cuda/sampling_sizes.h"
#include "coordinator/device/cuda/step_buffers.h"
#include "coordinator/device/cuda/weight_store.h"
#include "coordinator/device/device.h"

namespace numoe::cuda {

class CudaStorage : public Device {
  const std::unique_ptr<Runtime> owned_runtime_;  // first: outlives all that it allocated

 public:
  /// `runtime` null: counts only what a card of `facts` would hold.
  CudaStorage(const StepBounds& bounds, const DeviceFacts& facts, std::unique_ptr<Runtime> runtime,
              Stream stream)
      : owned_runtime_(std::move(runtime)),
        bounds_(bounds),
        facts_(facts),
        runtime_(owned_runtime_.get()),
        stream_(stream),
        store_(runtime_),
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
  uint64_t KvCacheBytes(const KvCacheSpec& spec) const override;
  absl::Status ReserveKvCache(const KvCacheSpec& spec) override;
  absl::StatusOr<ExpertSlots*> ReserveExperts(const ExpertSlotSpec& spec) override;
  DeviceMemory memory() const override {
    return {.weights = store_.bytes(),
            .kv_cache = cache_bytes_,
            .scratch = scratch_bytes_,
            .experts = expert_bytes_,
            .windows = window_bytes_};
  }

 protected:
  struct StoredTensor {
    std::unique_ptr<Memory> memory;
    int cols = 0;
    int rows = 0;
    TensorUse use = TensorUse::kActivation;
  };
  struct StoredEmbedding {
    const Bf16* rows = nullptr;
    int cols = 0;
  };
  struct StoredRope {
    const float* inverse = nullptr;  // [dim / 2]
    int dim = 0;
    float multiplier = 1.0f;
    RopeLayout layout = RopeLayout::kInterleaved;
  };
  struct StoredGate {
    const float* weight = nullptr;  // [experts, hidden]
    const float* bias = nullptr;    // [experts] or null
    int experts = 0;
    int hidden = 0;
  };
  struct StoredRoutes {
    std::unique_ptr<Memory> experts;  // int32 [rows, experts_per_token]
    std::unique_ptr<Memory> weights;  // fp32, as many
  };

  /// What the device keeps of steps beside tensors: tables, and the hand-over's counters.
  static uint64_t StepBytes(const StepBounds& bounds);
  /// Device memory of a step's own; an error is kept for ReserveKvCache, which comes last.
  std::unique_ptr<Memory> Scratch(size_t bytes);

  /// Rows of a step whose attention is planned together: as many as the partial results have room for.
  int AttendRows(bool exact) const;
  /// Bounds of a plan of attention for any kernel: `groups` blocks work on a piece beside each other.
  DecodeBounds AttendBounds(int rows, int blocks_per_sequence, bool exact) const;
  bool latent() const { return cache_spec_.row.value_width == 0; }
  int AttendWidth() const {
    const CacheRow& row = cache_spec_.row;
    return row.value_width > 0 ? row.value_width : row.key_width - row.plain_width;
  }

  const StepBounds bounds_;
  const DeviceFacts facts_;
  Runtime* const runtime_;
  const Stream stream_;
  WeightStore store_;
  uint64_t scratch_bytes_;
  uint64_t cache_bytes_ = 0;
  uint64_t expert_bytes_ = 0;
  uint64_t window_bytes_ = 0;
  absl::Status first_error_;
  std::vector<StoredTensor> tensors_;
  std::vector<DeviceMatrix> matrices_;
  std::vector<DeviceMatrix> gated_;
  std::vector<StoredEmbedding> embeddings_;
  std::vector<DeviceHeads> heads_;
  std::vector<const float*> vectors_;
  std::vector<StoredRope> ropes_;
  std::vector<StoredGate> gates_;
  std::vector<StoredRoutes> routes_;
  KvCacheSpec cache_spec_;
  std::vector<CacheLayer> cache_layers_;
  std::unique_ptr<Memory> attend_lists_;
  std::unique_ptr<Memory> attend_parts_;
  // Steps of many tokens multiply by the matrix library, from row-major BF16; null where none is so long.
  bool UsesLibrary(const DeviceMatrix& matrix, int rows, bool exact) const;
  int architecture() const { return facts_.compute_major * 10 + facts_.compute_minor; }
  std::unique_ptr<Memory> library_weights_;  // BF16 [rows, cols] of the largest such matrix
  std::unique_ptr<Memory> library_gated_;    // BF16 [rows of a step, 2 * rows] of the widest such gated pair

  // MLA's prefill expands the cache: keys and values of all heads for kExpandedRows positions.
  static constexpr int kExpandedRows = 8192;
  LatentRunShape mla_;
  std::unique_ptr<Memory> gathered_, expanded_keys_, expanded_values_;
  std::unique_ptr<Memory> prefill_sums_, prefill_maxima_, prefill_totals_;
  std::unique_ptr<Memory> partials_;            // of products that are cut along their inputs
  std::unique_ptr<Memory> arrivals_;            // their blocks' counters, zero between launches
  std::unique_ptr<Memory> gate_logits_;         // fp32 [rows, experts of the largest gate]
  std::vector<std::unique_ptr<Memory>> turns_;  // [rope] cosines and sines of the step's rows
  SamplingSizes sampling_;                      // of the one tensor of logits

 private:
  void ReserveAttention();
  void ReserveExpansion();
  void ReserveLibrary();
  void PlanDrawing();
  std::unique_ptr<Memory> cache_;  // of all layers
};

}  // namespace numoe::cuda
