#include "coordinator/execution/model/decoder.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::execution {
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
      clock_(options.observe),
      overlap_(options.overlap_tokens),
      attention_(MakeAttention(config, device.store(), clock_)) {
  NUMOE_CHECK_EQ(config.layer_is_moe.size(), static_cast<size_t>(config.num_layers));
  NUMOE_CHECK(options.deferred_experts == 0 || options.deferred_experts < config.experts_per_token);
  device.ConnectExperts(experts);
  DeviceStore& store = device.store();
  hidden_ = store.NewTensor(config.hidden_size, TensorUse::kResidual);
  normed_ = store.NewTensor(config.hidden_size);
  selected_ = store.NewTensor(config.hidden_size, TensorUse::kResidual, options.logit_rows_max);
  logits_ = store.NewTensor(config.vocab_size, TensorUse::kLogits, options.logit_rows_max);
  if (config.intermediate_size > 0) {
    mlp_inner_ = store.NewTensor(config.intermediate_size);
  }
  if (config.num_shared_experts > 0) {
    shared_inner_ = store.NewTensor(config.num_shared_experts * config.moe_intermediate_size);
  }
  routes_ = store.NewRouteTable(config.experts_per_token);
}

absl::Status Decoder::LoadWeights(const Checkpoint& checkpoint) {
  const std::string prefix = config_.tensor_prefix;
  const int vocab = config_.vocab_size;
  const int hidden = config_.hidden_size;
  ASSIGN_OR_RETURN(const MatrixView embedding,
                   checkpoint.FindMatrix(prefix + "model.embed_tokens", vocab, hidden, config_));
  ASSIGN_OR_RETURN(embedding_, device_.store().LoadEmbedding(embedding));
  for (LayerId layer = 0; layer < config_.num_layers; ++layer) RETURN_IF_ERROR(LoadLayer(checkpoint, layer));
  ASSIGN_OR_RETURN(final_norm_, LoadNorm(checkpoint, prefix + "model.norm.weight"));
  if (config_.tie_word_embeddings) {
    ASSIGN_OR_RETURN(head_, device_.store().LoadMatrix(embedding));
  } else {
    ASSIGN_OR_RETURN(const MatrixView head,
                     checkpoint.FindMatrix(prefix + "lm_head", vocab, hidden, config_));
    ASSIGN_OR_RETURN(head_, device_.store().LoadMatrix(head));
  }
  return device_.ReserveKvCache(CacheOf(options_.kv_blocks));
}

absl::StatusOr<Vector> Decoder::LoadNorm(const Checkpoint& checkpoint, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<float> values, checkpoint.ReadVector(name, config_.hidden_size));
  return device_.store().LoadVector(values);
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
  ASSIGN_OR_RETURN(mlp.gate_up, device_.store().LoadGated(gate, up));
  ASSIGN_OR_RETURN(mlp.down, device_.store().LoadMatrix(down));
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
  return device_.store().LoadGate(weight, bias, experts);
}

absl::Status Decoder::LoadLayer(const Checkpoint& checkpoint, LayerId layer) {
  const std::string prefix = absl::StrCat(config_.tensor_prefix, "model.layers.", layer);
  Layer w;
  w.is_moe = config_.layer_is_moe[layer];
  ASSIGN_OR_RETURN(w.input_norm, LoadNorm(checkpoint, prefix + ".input_layernorm.weight"));
  ASSIGN_OR_RETURN(w.post_attention_norm, LoadNorm(checkpoint, prefix + ".post_attention_layernorm.weight"));
  RETURN_IF_ERROR(attention_[static_cast<size_t>(layer)]->LoadLayer(checkpoint, layer));
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
  NUMOE_CHECK_EQ(layers_.size(), static_cast<size_t>(layer)) << "layers are loaded in order";
  NUMOE_CHECK_EQ(w.gate.experts, w.is_moe ? config_.num_experts : 0) << "only a MoE layer has a gate";
  NUMOE_CHECK(w.is_moe || w.has_mlp) << "a dense layer has an MLP";
  NUMOE_CHECK(!w.has_mlp || (w.mlp.gate_up.rows == w.mlp.inner.cols && w.mlp.down.cols == w.mlp.inner.cols));
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
  clock_.Enter(StepPart::kEmbed);
  const std::unique_ptr<Step> step = device_.Begin(layout);
  absl::StatusOr<StepLogits> logits = RunStep(*step, layout);
  clock_.EndStep();
  if (!logits.ok()) return logits;
  overlap_.Record(size, step->expert_execution(),
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (options_.observe_expert_execution) options_.observe_expert_execution(step->expert_execution());
  return logits;
}

absl::StatusOr<StepLogits> Decoder::RunStep(Step& step, const StepLayout& layout) {
  step.ops().Embed(step.all(), embedding_, hidden_);
  ForwardPass pass{.step = step, .out = {}, .deferred = {}};
  for (LayerId layer = 0; layer < config_.num_layers; ++layer) {
    for (const Rows rows : step.parts()) RETURN_IF_ERROR(RunLayer(pass, layer, rows));
  }
  RETURN_IF_ERROR(AddExperts(pass));
  RETURN_IF_ERROR(AddDeferred(pass));
  NUMOE_CHECK(!pass.out && !pass.deferred) << "all experts have been added to the residual";

  const int wanted = static_cast<int>(layout.logit_rows.size());
  StepLogits logits{.rows = 0, .vocab_size = config_.vocab_size, .values = {}, .drawn = {}};
  if (wanted == 0) return logits;
  NUMOE_CHECK(options_.logit_rows_max == 0 || wanted <= options_.logit_rows_max) << wanted;
  clock_.Enter(StepPart::kHead);
  const Rows rows = step.SelectLogitRows(hidden_, selected_);
  step.ops().RmsNorm(rows, {selected_}, config_.hidden_size, final_norm_,
                     static_cast<float>(config_.rms_norm_eps), {normed_});
  step.ops().Linear(rows, normed_, {{head_, {logits_}}});
  ASSIGN_OR_RETURN(const StepOutput output, step.ReadLogits(rows, logits_));
  NUMOE_CHECK(output.drawn.empty() || output.drawn.size() == static_cast<size_t>(wanted));
  NUMOE_CHECK_EQ(output.logits.size() % static_cast<size_t>(config_.vocab_size), size_t{0});
  logits.values = output.logits;
  logits.rows = static_cast<int>(output.logits.size()) / config_.vocab_size;
  logits.drawn = output.drawn;
  return logits;
}

absl::Status Decoder::RunLayer(ForwardPass& pass, LayerId layer, Rows rows) {
  Step& step = pass.step;
  const Layer& w = layers_[static_cast<size_t>(layer)];
  const float eps = static_cast<float>(config_.rms_norm_eps);
  // A call of the other half may stay outstanding.
  if (pass.out && pass.out->work().rows.set == rows.set) RETURN_IF_ERROR(AddExperts(pass));
  clock_.Enter(StepPart::kNorm);
  step.ops().RmsNorm(rows, {hidden_}, config_.hidden_size, w.input_norm, eps, {normed_});
  attention_[static_cast<size_t>(layer)]->Forward(step.ops(), rows, layer, normed_, hidden_);
  clock_.Enter(StepPart::kNorm);
  step.ops().RmsNorm(rows, {hidden_}, config_.hidden_size, w.post_attention_norm, eps, {normed_});
  if (w.is_moe) return RunExperts(pass, layer, rows);
  RunMlp(step, rows, w.mlp);
  return absl::OkStatus();
}

absl::Status Decoder::RunExperts(ForwardPass& pass, LayerId layer, Rows rows) {
  Step& step = pass.step;
  const Layer& w = layers_[static_cast<size_t>(layer)];
  clock_.Enter(StepPart::kGate);
  step.ops().Route(rows, w.gate, gate_params_, normed_, routes_);
  // They are added only now, after this layer's input was computed: the workers computed them during its
  // attention.
  RETURN_IF_ERROR(AddDeferred(pass));
  clock_.Enter(StepPart::kExperts);
  StagedExperts staged = step.StageExperts(rows, layer, normed_, routes_);
  RETURN_IF_ERROR(AddExperts(pass));
  ASSIGN_OR_RETURN(pass.out, step.SendExperts(std::move(staged), hidden_));
  if (w.has_mlp) RunMlp(step, rows, w.mlp);  // shared experts, while the workers compute the routed ones
  return absl::OkStatus();
}

absl::Status Decoder::AddExperts(ForwardPass& pass) {
  if (!pass.out) return absl::OkStatus();
  clock_.Enter(StepPart::kExperts);
  NUMOE_CHECK(!pass.deferred) << "deferred experts are added before the next call is sent";
  ASSIGN_OR_RETURN(pass.deferred, pass.step.AddExperts(*std::exchange(pass.out, std::nullopt), hidden_));
  return absl::OkStatus();
}

absl::Status Decoder::AddDeferred(ForwardPass& pass) {
  if (!pass.deferred) return absl::OkStatus();
  clock_.Enter(StepPart::kExperts);
  return pass.step.AddDeferredExperts(*std::exchange(pass.deferred, std::nullopt), hidden_);
}

void Decoder::RunMlp(Step& step, Rows rows, const Mlp& mlp) {
  clock_.Enter(StepPart::kDense);
  step.ops().GatedLinear(rows, normed_, mlp.gate_up, mlp.inner);
  step.ops().Linear(rows, mlp.inner, {{mlp.down, {hidden_}, /*accumulate=*/true}});
}

KvCacheSize Decoder::CacheOf(int blocks) const {
  return {.type = options_.kv_cache_type, .blocks = blocks, .block_tokens = options_.kv_block_tokens};
}

int64_t Decoder::KvBytesPerToken() const {
  return static_cast<int64_t>(device_.store().KvCacheBytes(CacheOf(1))) / options_.kv_block_tokens;
}

}  // namespace numoe::execution
