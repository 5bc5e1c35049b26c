// DeviceStore: what a model keeps on a device: its weights, and the tensors that its steps write to.
//
// Filled when a model is loaded, by one thread, and only read by the steps after that (step.h). Loading
// returns errors about the checkpoint, which name what does not fit; running out of memory is
// RESOURCE_EXHAUSTED. In which form weights and activations are kept is the device's own choice.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/weights/checkpoint.h"
#include "coordinator/execution/device/tensors.h"

namespace numoe::execution {

class DeviceStore {
 public:
  virtual ~DeviceStore() = default;

  /// A tensor of `rows` rows; 0: of as many as the largest step has tokens.
  virtual Tensor NewTensor(int cols, TensorUse use = TensorUse::kActivation, int rows = 0) = 0;
  virtual RouteTable NewRouteTable(int experts_per_token) = 0;
  virtual absl::StatusOr<Matrix> LoadMatrix(const MatrixView& source) = 0;
  /// REQUIRES: `gate` and `up` have the same shape.
  virtual absl::StatusOr<GatedMatrix> LoadGated(const MatrixView& gate, const MatrixView& up) = 0;
  /// A table whose rows are looked up; it keeps its stored element type.
  virtual absl::StatusOr<Matrix> LoadEmbedding(const MatrixView& source) = 0;
  /// `values` is [heads, rows, cols] fp32; stored as BF16.
  virtual absl::StatusOr<HeadMatrices> LoadHeads(absl::Span<const float> values, int heads, int rows,
                                                 int cols) = 0;
  virtual Vector LoadVector(absl::Span<const float> values) = 0;
  virtual RopeTable LoadRope(absl::Span<const float> inverse_frequencies, float multiplier,
                             RopeLayout layout) = 0;
  /// `weight` is [experts, hidden]; `bias` is empty or [experts].
  virtual Gate LoadGate(absl::Span<const float> weight, absl::Span<const float> bias, int experts) = 0;
  /// Rows that layers keep for each token. Device::ReserveKvCache gives all caches their memory.
  virtual Cache NewCache(const CacheShape& shape) = 0;
  /// Bytes that the caches which the store was asked for take, over all their layers.
  virtual uint64_t KvCacheBytes(const KvCacheSize& size) const = 0;
};

}  // namespace numoe::execution
