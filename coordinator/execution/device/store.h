// DeviceStore: holds a model's weights on a device, and the tensors that its steps write to.
//
// One thread fills it when a model is loaded; after that, steps (step.h) only read the weights. Loading
// returns errors about the checkpoint that name what does not fit; running out of memory is
// RESOURCE_EXHAUSTED. The device chooses the format of weights and activations.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/weights/checkpoint.h"
#include "coordinator/execution/device/tensors.h"

namespace numoe::execution {

class DeviceStore {
 public:
  virtual ~DeviceStore() = default;

  /// Creates a tensor of `rows` rows; if `rows` is 0, it has one row per token of the largest step.
  virtual Tensor NewTensor(int cols, TensorUse use = TensorUse::kActivation, int rows = 0) = 0;
  virtual RouteTable NewRouteTable(int experts_per_token) = 0;
  virtual absl::StatusOr<Matrix> LoadMatrix(const MatrixView& source) = 0;
  /// REQUIRES: `gate` and `up` have the same shape.
  virtual absl::StatusOr<GatedMatrix> LoadGated(const MatrixView& gate, const MatrixView& up) = 0;
  /// Loads a table whose rows are looked up; it keeps its stored element type.
  virtual absl::StatusOr<Matrix> LoadEmbedding(const MatrixView& source) = 0;
  /// `values` is [heads, rows, cols] fp32; stored as BF16.
  virtual absl::StatusOr<HeadMatrices> LoadHeads(absl::Span<const float> values, int heads, int rows,
                                                 int cols) = 0;
  virtual Vector LoadVector(absl::Span<const float> values) = 0;
  virtual RopeTable LoadRope(absl::Span<const float> inverse_frequencies, float multiplier,
                             RopeLayout layout) = 0;
  /// `weight` is [experts, hidden]; `bias` is empty or [experts].
  virtual Gate LoadGate(absl::Span<const float> weight, absl::Span<const float> bias, int experts) = 0;
  /// Registers a cache for the rows that layers store for each token. Device::ReserveKvCache allocates the
  /// memory of all caches.
  virtual Cache NewCache(const CacheShape& shape) = 0;
  /// Returns the bytes that all registered caches need, over all their layers.
  virtual uint64_t KvCacheBytes(const KvCacheSize& size) const = 0;
};

}  // namespace numoe::execution
