// Decoder: the only implementation of Model, for every supported architecture and device.
//
// Forward reads like the papers: embed; per layer norm, attention, norm, then experts or a dense MLP; final
// norm and head. Models differ in data (ModelConfig) or in the kind of Attention. Shared experts run while
// the workers compute the routed ones. Used by the engine thread only.
//   Expert deferral (KTransformers, SOSP 2025, https://doi.org/10.1145/3731569.3764843): the routed experts
// with the smallest combine weights are added one MoE layer later, so that the workers compute them while the
// device computes the next layer's attention: h += attention(h); h += experts(h) + the deferred experts of
// the previous MoE layer. Those of the last MoE layer are added before the final norm. StepLayout says
// whether a step defers: steps with one token of each sequence do. In longer steps both parts of a call would
// read the same experts' weights, and nothing would be gained. ModelOptions::defer_always makes all steps
// defer, for results that must not depend on the other sequences of a step.
//   Two-batch overlap (SGLang's --enable-two-batch-overlap, vLLM's dual batch overlap; DeepSeek-V3,
// https://arxiv.org/abs/2412.19437, section 3.4): a step of many rows is divided into two halves A and B, and
// the device computes one while the workers compute the experts of the other. Layer by layer:
//
//   device   attention A | shared A, attention B | shared B, next attention A | ...
//   workers              | experts A             | experts B                  | ...
//
// At most one call is outstanding: its sums are added before the other half's call is sent. B's attention
// reads A's rows of the same layer from the cache. step_overlap.h says which steps are halved; steps that
// defer are not.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "coordinator/execution/attention/attention.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/model/step_overlap.h"
#include "coordinator/execution/model/step_plan.h"

namespace numoe::execution {

class Decoder final : public Model {
 public:
  Decoder(const ModelConfig& config, const ModelOptions& options, Device& device, ExpertBackend& experts);

  /// Loads all weights except those of the routed experts, and reserves the KV cache.
  absl::Status LoadWeights(const Checkpoint& checkpoint);

  absl::StatusOr<StepLogits> Forward(const StepBatch& batch) override;
  bool CanDraw() const override { return device_.CanDraw(); }
  const ModelConfig& config() const override { return config_; }
  int64_t KvBytesPerToken() const override;

 private:
  struct Mlp {  // SwiGLU: down(silu(gate x) * up x)
    GatedMatrix gate_up;
    Matrix down;
    Tensor inner;  // [width]
  };
  struct Layer {
    Vector input_norm, post_attention_norm;
    bool is_moe = false;
    Gate gate;  // MoE layers
    Mlp mlp;    // dense layers: the MLP; MoE layers: the shared experts, merged
    bool has_mlp = false;
  };

  KvCacheSize CacheOf(int blocks) const;
  absl::StatusOr<Vector> LoadNorm(const Checkpoint& checkpoint, const std::string& name);
  absl::StatusOr<Mlp> LoadMlp(const Checkpoint& checkpoint, const std::string& module, int width);
  absl::Status LoadLayer(const Checkpoint& checkpoint, LayerId layer);
  absl::StatusOr<Gate> LoadGate(const Checkpoint& checkpoint, const std::string& module);
  /// What a step's layers pass on to each other: the routed work that the workers are still computing.
  struct ForwardPass {
    Step& step;
    std::optional<SentExperts> out;           // at most one call, of one half or of all rows
    std::optional<DeferredExperts> deferred;  // those of the previous MoE layer
  };
  absl::StatusOr<StepLogits> RunStep(Step& step, const StepLayout& layout);
  absl::Status RunLayer(ForwardPass& pass, LayerId layer, Rows rows);
  absl::Status RunExperts(ForwardPass& pass, LayerId layer, Rows rows);
  absl::Status AddExperts(ForwardPass& pass);
  absl::Status AddDeferred(ForwardPass& pass);
  void RunMlp(Step& step, Rows rows, const Mlp& mlp);

  const ModelConfig config_;
  const ModelOptions options_;
  const GateParams gate_params_;
  Device& device_;
  StepClock clock_;
  StepOverlap overlap_;
  std::vector<std::shared_ptr<Attention>> attention_;  // [num_layers]

  Matrix embedding_;
  std::vector<Layer> layers_;
  Vector final_norm_;
  Matrix head_;

  Tensor hidden_;        // [hidden] the residual stream
  Tensor normed_;        // [hidden] the input of attention, MLP or experts
  Tensor selected_;      // [hidden] residuals of the rows whose logits are requested
  Tensor logits_;        // [vocab]
  Tensor mlp_inner_;     // [intermediate] of dense layers
  Tensor shared_inner_;  // [shared experts' intermediate]
  RouteTable routes_;
};

}  // namespace numoe::execution
