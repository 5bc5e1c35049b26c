#include "coordinator/model/decoder.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe {
namespace {

using Clock = std::chrono::steady_clock;

GateParams MakeGateParams(const ModelConfig& config) {
  return {.scoring = config.scoring,
          .experts_per_token = config.experts_per_token,
          .n_group = config.n_group,
          .topk_group = config.topk_group,
          .norm_topk_prob = config.norm_topk_prob,
          .scaling = static_cast<float>(config.routed_scaling_factor)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::Load(const Checkpoint& checkpoint, const ModelConfig& config,
                                                   const ModelOptions& options, Device& device,
                                                   ExpertBackend& experts) {
  auto decoder = std::make_unique<Decoder>(config, options, device, experts);
  RETURN_IF_ERROR(decoder->LoadWeights(checkpoint));
  return decoder;
}

Decoder::Decoder(const ModelConfig& config, const ModelOptions& options, Device& device,
                 ExpertBackend& experts)
    : config_(config),
      options_(options),
      gate_params_(MakeGateParams(config)),
      device_(device),
      experts_(experts),
      attention_(MakeAttention(config, device)) {
  hidden_ = device.NewTensor(config.hidden_size);
  normed_ = device.NewTensor(config.hidden_size);
  selected_ = device.NewTensor(config.hidden_size);
  logits_ = device.NewTensor(config.vocab_size);
  if (config.intermediate_size > 0) {
    mlp_gate_ = device.NewTensor(config.intermediate_size);
    mlp_up_ = device.NewTensor(config.intermediate_size);
  }
  if (config.num_shared_experts > 0) {
    shared_gate_ = device.NewTensor(config.num_shared_experts * config.moe_intermediate_size);
    shared_up_ = device.NewTensor(config.num_shared_experts * config.moe_intermediate_size);
  }
  routes_ = device.NewRouteTable(config.experts_per_token);
}

absl::Status Decoder::LoadWeights(const Checkpoint& checkpoint) {
  const std::string prefix = config_.tensor_prefix;
  const int vocab = config_.vocab_size;
  const int hidden = config_.hidden_size;
  ASSIGN_OR_RETURN(const MatrixView embedding,
                   checkpoint.FindMatrix(prefix + "model.embed_tokens", vocab, hidden, config_));
  ASSIGN_OR_RETURN(embedding_, device_.LoadEmbedding(embedding));
  for (LayerId layer = 0; layer < config_.num_layers; ++layer) RETURN_IF_ERROR(LoadLayer(checkpoint, layer));
  ASSIGN_OR_RETURN(final_norm_, LoadNorm(checkpoint, prefix + "model.norm.weight"));
  if (config_.tie_word_embeddings) {
    ASSIGN_OR_RETURN(head_, device_.LoadMatrix(embedding));
  } else {
    ASSIGN_OR_RETURN(const MatrixView head,
                     checkpoint.FindMatrix(prefix + "lm_head", vocab, hidden, config_));
    ASSIGN_OR_RETURN(head_, device_.LoadMatrix(head));
  }
  return device_.ReserveKvCache({.layers = config_.num_layers,
                                 .blocks = options_.kv_blocks,
                                 .block_tokens = options_.kv_block_tokens,
                                 .row_width = attention_->CacheRowWidth()});
}

absl::StatusOr<Vector> Decoder::LoadNorm(const Checkpoint& checkpoint, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<float> values, checkpoint.ReadVector(name, config_.hidden_size));
  return device_.LoadVector(values);
}

absl::StatusOr<Decoder::Mlp> Decoder::LoadMlp(const Checkpoint& checkpoint, const std::string& module,
                                              int width) {
  const auto load = [&](const char* part, int rows, int cols) -> absl::StatusOr<Matrix> {
    ASSIGN_OR_RETURN(const MatrixView view,
                     checkpoint.FindMatrix(absl::StrCat(module, part), rows, cols, config_));
    return device_.LoadMatrix(view);
  };
  Mlp mlp;
  ASSIGN_OR_RETURN(mlp.gate, load(".gate_proj", width, config_.hidden_size));
  ASSIGN_OR_RETURN(mlp.up, load(".up_proj", width, config_.hidden_size));
  ASSIGN_OR_RETURN(mlp.down, load(".down_proj", config_.hidden_size, width));
  return mlp;
}

absl::StatusOr<Gate> Decoder::LoadGate(const Checkpoint& checkpoint, const std::string& module) {
  const int experts = config_.num_experts;
  ASSIGN_OR_RETURN(const MatrixView view,
                   checkpoint.FindMatrix(module, experts, config_.hidden_size, config_));
  std::vector<float> weight(static_cast<size_t>(experts) * config_.hidden_size);
  DecodeMatrix(view, 0, experts, 0, config_.hidden_size, absl::MakeSpan(weight));
  std::vector<float> bias;
  if (config_.scoring == GateScoring::kSigmoidNoAuxTc) {
    ASSIGN_OR_RETURN(bias, checkpoint.ReadVector(module + ".e_score_correction_bias", experts));
  }
  return device_.LoadGate(weight, bias, experts);
}

absl::Status Decoder::LoadLayer(const Checkpoint& checkpoint, LayerId layer) {
  const std::string prefix = absl::StrCat(config_.tensor_prefix, "model.layers.", layer);
  Layer w;
  w.is_moe = config_.layer_is_moe[layer];
  ASSIGN_OR_RETURN(w.input_norm, LoadNorm(checkpoint, prefix + ".input_layernorm.weight"));
  ASSIGN_OR_RETURN(w.post_attention_norm, LoadNorm(checkpoint, prefix + ".post_attention_layernorm.weight"));
  RETURN_IF_ERROR(attention_->LoadLayer(checkpoint, layer));
  if (!w.is_moe) {
    ASSIGN_OR_RETURN(w.mlp, LoadMlp(checkpoint, prefix + ".mlp", config_.intermediate_size));
    w.mlp.gate_out = mlp_gate_;
    w.mlp.up_out = mlp_up_;
    w.has_mlp = true;
  } else {
    ASSIGN_OR_RETURN(w.gate, LoadGate(checkpoint, prefix + ".mlp.gate"));
    if (config_.num_shared_experts > 0) {
      const int width = config_.num_shared_experts * config_.moe_intermediate_size;
      ASSIGN_OR_RETURN(w.mlp, LoadMlp(checkpoint, prefix + ".mlp.shared_experts", width));
      w.mlp.gate_out = shared_gate_;
      w.mlp.up_out = shared_up_;
      w.has_mlp = true;
    }
  }
  layers_.push_back(w);
  return absl::OkStatus();
}

absl::StatusOr<StepLogits> Decoder::Forward(const StepBatch& batch) {
  const StepLayout layout = PlanStep(batch, options_);
  device_.BeginStep(layout);
  device_.Embed(embedding_, hidden_);
  for (LayerId layer = 0; layer < config_.num_layers; ++layer) RETURN_IF_ERROR(RunLayer(layer));

  StepLogits logits{
      .rows = static_cast<int>(layout.logit_rows.size()), .vocab_size = config_.vocab_size, .values = {}};
  if (logits.rows == 0) return logits;
  device_.SelectLogitRows(hidden_, selected_);
  device_.RmsNorm({selected_}, config_.hidden_size, final_norm_, static_cast<float>(config_.rms_norm_eps),
                  {selected_});
  device_.Linear(head_, selected_, logits_, /*accumulate=*/false);
  ASSIGN_OR_RETURN(logits.values, device_.ReadLogits(logits_));
  return logits;
}

absl::Status Decoder::RunLayer(LayerId layer) {
  const Layer& w = layers_[layer];
  const float eps = static_cast<float>(config_.rms_norm_eps);
  const Clock::time_point start = Clock::now();
  device_.RmsNorm({hidden_}, config_.hidden_size, w.input_norm, eps, {normed_});
  attention_->Forward(layer, normed_, hidden_);
  device_.RmsNorm({hidden_}, config_.hidden_size, w.post_attention_norm, eps, {normed_});
  const Clock::time_point middle = Clock::now();
  absl::Status status;
  if (w.is_moe) {
    status = RunExperts(layer, w);
  } else {
    RunMlp(w.mlp);
  }
  if (options_.observe) {
    options_.observe(LayerPart::kAttention, std::chrono::duration<double>(middle - start).count());
    options_.observe(w.is_moe ? LayerPart::kExperts : LayerPart::kDense,
                     std::chrono::duration<double>(Clock::now() - middle).count());
  }
  return status;
}

absl::Status Decoder::RunExperts(LayerId layer, const Layer& w) {
  device_.Route(w.gate, gate_params_, normed_, routes_);
  RETURN_IF_ERROR(device_.StartExperts(experts_, layer, normed_, routes_));
  if (w.has_mlp) RunMlp(w.mlp);  // shared experts, while the routed ones are out
  return device_.JoinExperts(experts_, hidden_);
}

void Decoder::RunMlp(const Mlp& mlp) {
  device_.Linear(mlp.gate, normed_, mlp.gate_out, /*accumulate=*/false);
  device_.Linear(mlp.up, normed_, mlp.up_out, /*accumulate=*/false);
  device_.SwiGlu(mlp.gate_out, mlp.up_out);
  device_.Linear(mlp.down, mlp.gate_out, hidden_, /*accumulate=*/true);
}

int64_t Decoder::KvBytesPerToken() const {
  return int64_t{config_.num_layers} * attention_->CacheRowWidth() * static_cast<int64_t>(sizeof(uint16_t));
}

}  // namespace numoe
