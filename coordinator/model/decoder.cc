#include "coordinator/model/decoder.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe {
namespace {

GateParams MakeGateParams(const ModelConfig& config, const ModelOptions& options) {
  return {.scoring = config.scoring,
          .experts_per_token = config.experts_per_token,
          .n_group = config.n_group,
          .topk_group = config.topk_group,
          .norm_topk_prob = config.norm_topk_prob,
          .scaling = static_cast<float>(config.routed_scaling_factor),
          .deferred_experts = options.deferred_experts};
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
      gate_params_(MakeGateParams(config, options)),
      device_(device),
      experts_(experts),
      clock_(options.observe),
      overlap_(options.overlap_tokens),
      attention_(MakeAttention(config, device, clock_)) {
  hidden_ = device.NewTensor(config.hidden_size, TensorUse::kResidual);
  normed_ = device.NewTensor(config.hidden_size);
  selected_ = device.NewTensor(config.hidden_size, TensorUse::kResidual, options.logit_rows_max);
  logits_ = device.NewTensor(config.vocab_size, TensorUse::kLogits, options.logit_rows_max);
  if (config.intermediate_size > 0) {
    mlp_inner_ = device.NewTensor(config.intermediate_size);
  }
  if (config.num_shared_experts > 0) {
    shared_inner_ = device.NewTensor(config.num_shared_experts * config.moe_intermediate_size);
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
  return device_.ReserveKvCache(CacheOf(options_.kv_blocks));
}

absl::StatusOr<Vector> Decoder::LoadNorm(const Checkpoint& checkpoint, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<float> values, checkpoint.ReadVector(name, config_.hidden_size));
  return device_.LoadVector(values);
}

absl::StatusOr<Decoder::Mlp> Decoder::LoadMlp(const Checkpoint& checkpoint, const std::string& module,
                                              int width) {
  const auto find = [&](const char* part, int rows, int cols) {
    return checkpoint.FindMatrix(absl::StrCat(module, part), rows, cols, config_);
  };
  ASSIGN_OR_RETURN(const MatrixView gate, find(".gate_proj", width, config_.hidden_size));
  ASSIGN_OR_RETURN(const MatrixView up, find(".up_proj", width, config_.hidden_size));
  ASSIGN_OR_RETURN(const MatrixView down, find(".down_proj", config_.hidden_size, width));
  Mlp mlp;
  ASSIGN_OR_RETURN(mlp.gate_up, device_.LoadGated(gate, up));
  ASSIGN_OR_RETURN(mlp.down, device_.LoadMatrix(down));
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
    w.mlp.inner = mlp_inner_;
    w.has_mlp = true;
  } else {
    ASSIGN_OR_RETURN(w.gate, LoadGate(checkpoint, prefix + ".mlp.gate"));
    if (config_.num_shared_experts > 0) {
      const int width = config_.num_shared_experts * config_.moe_intermediate_size;
      ASSIGN_OR_RETURN(w.mlp, LoadMlp(checkpoint, prefix + ".mlp.shared_experts", width));
      w.mlp.inner = shared_inner_;
      w.has_mlp = true;
    }
  }
  layers_.push_back(w);
  return absl::OkStatus();
}

absl::StatusOr<StepLogits> Decoder::Forward(const StepBatch& batch) {
  StepLayout layout = PlanStep(batch, options_);
  const StepSize size{.rows = layout.rows(),
                      .prompt = batch.sequences.size() < layout.tokens.size(),
                      .defers = layout.deferred_experts > 0};
  if (overlap_.Halve(size)) layout.second_half = PlanCut(layout.rows());
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<StepLogits> logits = RunStep(layout);
  clock_.EndStep();
  if (!logits.ok()) return logits;
  overlap_.Record(size, device_.Way(),
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (options_.observe_way) options_.observe_way(device_.Way());
  return logits;
}

absl::StatusOr<StepLogits> Decoder::RunStep(const StepLayout& layout) {
  clock_.Enter(StepPart::kEmbed);
  device_.BeginStep(layout);
  deferred_experts_ = layout.deferred_experts;
  out_.reset();  // what a lost step left with the workers is dropped by the backend
  deferred_out_ = false;
  device_.Embed(embedding_, hidden_);
  RETURN_IF_ERROR(RunLayers());

  const int rows = static_cast<int>(layout.logit_rows.size());
  StepLogits logits{.rows = 0, .vocab_size = config_.vocab_size, .values = {}, .drawn = {}};
  if (rows == 0) return logits;
  NUMOE_CHECK(options_.logit_rows_max == 0 || rows <= options_.logit_rows_max) << rows;
  clock_.Enter(StepPart::kHead);
  device_.SelectLogitRows(hidden_, selected_);
  device_.RmsNorm({selected_}, config_.hidden_size, final_norm_, static_cast<float>(config_.rms_norm_eps),
                  {normed_});
  device_.Linear(normed_, {{head_, {logits_}}});
  if (device_.CanDraw()) device_.DrawTokens(logits_);
  ASSIGN_OR_RETURN(logits.values, device_.ReadLogits(logits_));
  logits.rows = static_cast<int>(logits.values.size()) / config_.vocab_size;
  logits.drawn = device_.drawn();
  return logits;
}

absl::Status Decoder::RunLayers() {
  constexpr StepSpan kAll[] = {StepSpan::kAll};
  constexpr StepSpan kHalves[] = {StepSpan::kFirstHalf, StepSpan::kSecondHalf};
  const auto parts =
      device_.Way() == StepWay::kHalves ? absl::MakeConstSpan(kHalves) : absl::Span<const StepSpan>(kAll);
  for (LayerId layer = 0; layer < config_.num_layers; ++layer) {
    for (const StepSpan rows : parts) {
      device_.UseRows(rows);
      RETURN_IF_ERROR(RunLayer(layer, rows));
    }
  }
  RETURN_IF_ERROR(Join());
  RETURN_IF_ERROR(JoinDeferred());
  device_.UseRows(StepSpan::kAll);
  return absl::OkStatus();
}

absl::Status Decoder::RunLayer(LayerId layer, StepSpan rows) {
  const Layer& w = layers_[layer];
  const float eps = static_cast<float>(config_.rms_norm_eps);
  if (out_ == rows) RETURN_IF_ERROR(Join());  // the other half's may stay out
  clock_.Enter(StepPart::kNorm);
  device_.RmsNorm({hidden_}, config_.hidden_size, w.input_norm, eps, {normed_});
  attention_->Forward(layer, normed_, hidden_);
  clock_.Enter(StepPart::kNorm);
  device_.RmsNorm({hidden_}, config_.hidden_size, w.post_attention_norm, eps, {normed_});
  if (w.is_moe) return RunExperts(layer, w, rows);
  RunMlp(w.mlp);
  return absl::OkStatus();
}

absl::Status Decoder::RunExperts(LayerId layer, const Layer& w, StepSpan rows) {
  clock_.Enter(StepPart::kGate);
  device_.Route(w.gate, gate_params_, normed_, routes_);
  // Only now, when this layer's input is made: until here they were computed beside its attention.
  RETURN_IF_ERROR(JoinDeferred());
  clock_.Enter(StepPart::kExperts);
  device_.StageExperts(layer, normed_, routes_);
  RETURN_IF_ERROR(Join());
  RETURN_IF_ERROR(device_.StartExperts(experts_, hidden_));
  out_ = rows;
  if (w.has_mlp) RunMlp(w.mlp);  // shared experts, while the routed ones are out
  return absl::OkStatus();
}

absl::Status Decoder::Join() {
  if (!out_) return absl::OkStatus();
  out_.reset();
  clock_.Enter(StepPart::kExperts);
  deferred_out_ = deferred_experts_ > 0;
  return device_.JoinExperts(experts_, hidden_);
}

absl::Status Decoder::JoinDeferred() {
  if (!std::exchange(deferred_out_, false)) return absl::OkStatus();
  clock_.Enter(StepPart::kExperts);
  return device_.JoinDeferredExperts(experts_, hidden_);
}

void Decoder::RunMlp(const Mlp& mlp) {
  clock_.Enter(StepPart::kDense);
  device_.GatedLinear(normed_, mlp.gate_up, mlp.inner);
  device_.Linear(mlp.inner, {{mlp.down, {hidden_}, /*accumulate=*/true}});
}

KvCacheSpec Decoder::CacheOf(int blocks) const {
  return {.type = options_.kv_cache_type,
          .layers = config_.num_layers,
          .blocks = blocks,
          .block_tokens = options_.kv_block_tokens,
          .row = attention_->CachedPerToken(),
          .query_heads = config_.num_heads};
}

int64_t Decoder::KvBytesPerToken() const {
  return static_cast<int64_t>(device_.KvCacheBytes(CacheOf(1))) / options_.kv_block_tokens;
}

}  // namespace numoe
