// Attention of one decoder layer: normed hidden states in, their attention output added to the residual.
//
// Two kinds behind one interface: multi-head latent attention in absorbed form (mla.h; DeepSeek-V3, Kimi-K2)
// and grouped-query attention with per-head q/k norms (gqa.h; Qwen3). Each declares the width of its cache
// row. Weights live on the device; scratch tensors are shared by all layers. Used by the engine thread only.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/weights/checkpoint.h"
#include "coordinator/execution/device/operations.h"
#include "coordinator/execution/device/step_clock.h"
#include "coordinator/execution/device/store.h"

namespace numoe::execution {

class Attention {
 public:
  virtual ~Attention() = default;

  /// Loads layer `layer`'s weights; call once per layer, in order. Errors name the tensor.
  virtual absl::Status LoadLayer(const Checkpoint& checkpoint, LayerId layer) = 0;
  /// residual += Attention(x) for `rows` of the step. `x` is the layer's normed input [tokens, hidden].
  virtual void Forward(Operations& ops, Rows rows, LayerId layer, Tensor x, Tensor residual) = 0;
  /// What one token keeps in the KV cache of a layer.
  virtual CacheRow CachedPerToken() const = 0;
};

/// The attention that `config` asks for. `store` and `clock` outlive it.
std::unique_ptr<Attention> MakeAttention(const ModelConfig& config, DeviceStore& store, StepClock& clock);

}  // namespace numoe::execution
