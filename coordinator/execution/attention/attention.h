// Attention: the attention of a decoder's layers. It computes from normed hidden states and adds to the
// residual.
//
// Each kind implements this interface: multi-head latent attention (mla.h; DeepSeek-V3, Kimi-K2) and
// grouped-query attention with per-head q/k norms (gqa.h; Qwen3). One object serves all layers of its kind:
// it allocates their cache in the device's store, and they share its scratch tensors. Weights are stored on
// the device. Used by the engine thread only.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/weights/checkpoint.h"
#include "coordinator/execution/device/operations.h"
#include "coordinator/execution/device/step_clock.h"
#include "coordinator/execution/device/store.h"

namespace numoe::execution {

class Attention {
 public:
  virtual ~Attention() = default;

  /// Loads layer `layer`'s weights; call once for each layer of this kind, in order. Errors name the tensor.
  virtual absl::Status LoadLayer(const Checkpoint& checkpoint, LayerId layer) = 0;
  /// residual += Attention(x) for `rows` of the step. `x` is the layer's normed input [tokens, hidden].
  virtual void Forward(Operations& ops, Rows rows, LayerId layer, Tensor x, Tensor residual) = 0;
};

/// Returns the attention of each layer of `config`, [num_layers]; layers of the same kind share an object.
/// `store` and `clock` must outlive it.
std::vector<std::shared_ptr<Attention>> MakeAttention(const ModelConfig& config, DeviceStore& store,
                                                      StepClock& clock);

}  // namespace numoe::execution
