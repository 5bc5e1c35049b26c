#include "common/weights/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/config_fields.h"
#include "common/weights/weights_limits.h"

namespace numoe {
namespace {

using nlohmann::json;

constexpr int kSigmoidGating = 2;  // {arch}.expert_gating_func
constexpr int kControl = 3;        // tokenizer.ggml.token_type
constexpr int kDeepSeekVocab = 129'280, kDeepSeekExperts = 256;
constexpr const char* kStopNames[] = {"<|im_end|>", "<|endoftext|>", "[EOS]", "[EOT]",
                                      "<｜end▁of▁sentence｜>"};

// Returns the keys that begin with `prefix`, without it. Arrays become a description, because nothing here
// reads one.
json FieldsOf(const GgufFile& file, std::string_view prefix) {
  json fields = json::object();
  const auto& metadata = file.metadata;
  for (auto it = metadata.lower_bound(prefix); it != metadata.end() && it->first.rfind(prefix, 0) == 0;
       ++it) {
    const GgufValue& value = it->second;
    json& field = fields[it->first.substr(prefix.size())];
    if (value.is_array) {
      field = json::array({value.Describe()});
    } else if (const auto integer = value.Integer()) {
      field = *integer;
    } else if (const auto number = value.Number()) {
      field = *number;
    } else if (const auto flag = value.Bool()) {
      field = *flag;
    } else if (const auto text = value.String()) {
      field = std::string(*text);
    } else {
      field = json::array({value.Describe()});
    }
  }
  return fields;
}

bool IsKimi(const GgufFile& file) { return file.Text("tokenizer.ggml.pre") == "kimi-k2"; }

// Layers at the end that predict further tokens (MTP) are counted in block_count by converters that keep
// them.
int PredictingLayers(ConfigFields& f, const GgufFile& file, int layers) {
  const int count = f.Int({"nextn_predict_layers"}, 0, layers - 1, 0);
  const std::string prefix = fmt::format("blk.{}.nextn.", layers - count);
  const auto it = file.tensors.lower_bound(prefix);
  return count > 0 && it != file.tensors.end() && it->first.rfind(prefix, 0) == 0 ? count : 0;
}

absl::Status ReadVocabulary(const GgufFile& file, const std::string& path, ModelConfig& c) {
  const GgufTensor* embedding = file.Tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2 || embedding->shape[0] > limits::kVocabularyMax) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: tensor token_embd.weight: {}, expected [vocabulary, {}]", path,
        embedding == nullptr ? "is missing" : "shape " + ShapeToString(embedding->shape), c.hidden_size));
  }
  c.vocab_size = static_cast<int>(embedding->shape[0]);
  c.tie_word_embeddings = file.Tensor("output.weight") == nullptr;
  return absl::OkStatus();
}

void ReadCommon(ConfigFields& f, const GgufFile& file, ModelConfig& c) {
  c.hidden_size = f.Int({"embedding_length"}, 1, limits::kHiddenSizeMax);
  c.num_layers = f.Int({"block_count"}, 1, limits::kLayersMax);
  c.num_layers -= PredictingLayers(f, file, c.num_layers);
  c.max_position_embeddings = f.Int64({"context_length"}, 1, limits::kPositionsMax);
  c.rms_norm_eps = f.Double({"attention.layer_norm_rms_epsilon"}, limits::kEpsilonMin, 1);
  c.num_heads = f.Int({"attention.head_count"}, 1, limits::kHeadsMax);
  c.intermediate_size = f.Int({"feed_forward_length"}, 0, limits::kIntermediateMax, 0);
  c.moe_intermediate_size = f.Int({"expert_feed_forward_length"}, 1, limits::kIntermediateMax);
  c.num_experts = f.Int({"expert_count"}, 1, limits::kExpertsMax);
  c.experts_per_token = f.Int({"expert_used_count"}, 1, std::min(limits::kExpertsPerTokenMax, c.num_experts));
  c.routed_scaling_factor = f.Double({"expert_weights_scale"}, 0, 1e6, 1.0);
  if (c.routed_scaling_factor == 0)
    c.routed_scaling_factor = 1.0;  // some converters write "none" in this way
  c.rope.theta = f.Double({"rope.freq_base"}, limits::kThetaMin, limits::kThetaMax, 10000.0);
}

// The caller sets `mscale_all_dim`, because the architectures differ.
void ReadYarn(ConfigFields& f, const GgufFile& file, RopeConfig& rope) {
  const std::string type = f.String({"rope.scaling.type"}, "none");
  if (type == "none") return;
  if (type != "yarn")
    f.Fail({"rope.scaling.type"}, "is " + Brief(type),
           "\"none\" or \"yarn\", the only kinds this engine computes");
  rope.has_yarn = true;
  rope.yarn.factor = f.Double({"rope.scaling.factor"}, 1, 1e6);
  rope.yarn.original_max_position_embeddings =
      f.Int64({"rope.scaling.original_context_length"}, 1, limits::kPositionsMax);
  rope.yarn.beta_fast = f.Double({"rope.scaling.yarn_beta_fast"}, 1e-3, 1e6, IsKimi(file) ? 1.0 : 32.0);
  rope.yarn.beta_slow = f.Double({"rope.scaling.yarn_beta_slow"}, 1e-3, 1e6, 1.0);
  f.Only("rope.scaling.attn_factor", 1.0);
  f.Only("rope.scaling.yarn_attn_factor", 1.0);
  f.Only("rope.scaling.yarn_ext_factor", 1.0);
}

// Reads the head sizes. Newer files have the compressed ones in key_length and those of the heads in
// key_length_mla.
void ReadMlaHeads(ConfigFields& f, ModelConfig& c) {
  c.kv_lora_rank = f.Int({"attention.kv_lora_rank"}, 1, limits::kRankMax);
  c.q_lora_rank = f.Int({"attention.q_lora_rank"}, 0, limits::kRankMax, 0);
  c.qk_rope_head_dim = f.Int({"rope.dimension_count"}, 2, limits::kHeadDimMax);
  if (c.qk_rope_head_dim % 2 != 0)
    f.Fail({"rope.dimension_count"}, fmt::format("is {}", c.qk_rope_head_dim), "an even number");
  const int key = f.Int({"attention.key_length_mla", "attention.key_length"}, 1, 2 * limits::kHeadDimMax);
  c.v_head_dim = f.Int({"attention.value_length_mla", "attention.value_length"}, 1, limits::kHeadDimMax);
  c.qk_nope_head_dim = key - c.qk_rope_head_dim;
  if (c.qk_nope_head_dim < 1) {
    f.Fail({"attention.key_length_mla", "attention.key_length"}, fmt::format("is {}", key),
           fmt::format("more than the {} channels of rope.dimension_count", c.qk_rope_head_dim));
  }
}

void ReadDeepSeek(ConfigFields& f, const GgufFile& file, ModelConfig& c) {
  ReadCommon(f, file, c);
  c.model_type = IsKimi(file) ? "kimi_k2" : "deepseek_v3";
  c.layer_attention.assign(static_cast<size_t>(c.num_layers), AttentionKind::kMla);
  ReadMlaHeads(f, c);
  c.rope.layout = RopeLayout::kInterleaved;
  c.rope.dim = c.qk_rope_head_dim;
  ReadYarn(f, file, c.rope);
  // The factor of the softmax scale is 1 + multiplier * ln(factor); that of the rotation is 1.
  c.rope.yarn.mscale_all_dim = 10 * f.Double({"rope.scaling.yarn_log_multiplier"}, 0, 10, 0.0);
  c.rope.yarn.mscale = c.rope.yarn.mscale_all_dim;
  c.num_shared_experts = f.Int({"expert_shared_count"}, 0, limits::kSharedExpertsMax, 0);
  c.norm_topk_prob = f.Bool({"expert_weights_norm"});
  f.Must("expert_gating_func", kSigmoidGating);
  c.scoring = GateScoring::kSigmoidNoAuxTc;
  const bool grouped = c.vocab_size == kDeepSeekVocab && c.num_experts == kDeepSeekExperts;
  c.n_group = f.Int({"expert_group_count"}, 1, c.num_experts, grouped ? 8 : 1);
  c.topk_group =
      f.Int({"expert_group_used_count"}, 1, c.n_group, grouped ? std::min(4, c.n_group) : c.n_group);
  if (c.num_experts % c.n_group != 0 || c.num_experts / c.n_group * c.topk_group < c.experts_per_token) {
    f.Fail({"expert_group_count"},
           fmt::format("is {} with expert_group_used_count {}", c.n_group, c.topk_group),
           fmt::format("a divisor of {} experts that leaves {} to choose from", c.num_experts,
                       c.experts_per_token));
  }
  const int dense = f.Int({"leading_dense_block_count"}, 0, c.num_layers, 0);
  if (dense > 0 && c.intermediate_size == 0)
    f.Fail({"feed_forward_length"}, "is missing", "the width of the dense layers' MLP");
  for (int l = 0; l < c.num_layers; ++l) c.layer_is_moe.push_back(l >= dense);
}

void ReadQwen3(ConfigFields& f, const GgufFile& file, ModelConfig& c) {
  ReadCommon(f, file, c);
  c.model_type = "qwen3_moe";
  c.layer_attention.assign(static_cast<size_t>(c.num_layers), AttentionKind::kGqa);
  c.num_kv_heads = f.Int({"attention.head_count_kv"}, 1, c.num_heads);
  if (c.num_heads % c.num_kv_heads != 0) {
    f.Fail({"attention.head_count_kv"}, fmt::format("is {}", c.num_kv_heads),
           fmt::format("a divisor of {} heads", c.num_heads));
  }
  c.head_dim = f.Int({"attention.key_length"}, 2, limits::kHeadDimMax,
                     std::clamp(c.hidden_size / c.num_heads, 2, limits::kHeadDimMax));
  if (c.head_dim % 2 != 0)
    f.Fail({"attention.key_length"}, fmt::format("is {}", c.head_dim), "an even number");
  f.Only("attention.value_length", c.head_dim);
  f.Only("rope.dimension_count", c.head_dim);
  c.rope.layout = RopeLayout::kHalf;
  c.rope.dim = c.head_dim;
  ReadYarn(f, file, c.rope);
  c.scoring = GateScoring::kSoftmax;
  c.norm_topk_prob =
      f.Bool({"expert_weights_norm"}, true);  // the architecture's default; files rarely have it
  f.Only("expert_shared_count", 0);
  c.layer_is_moe.assign(static_cast<size_t>(c.num_layers), true);
}

// Returns the ids that keys name, and control tokens by their names.
absl::Status ReadTokens(const GgufFile& file, const std::string& path, ModelConfig& c) {
  const json tokenizer = FieldsOf(file, "tokenizer.ggml.");
  ConfigFields f(tokenizer, path, "tokenizer.ggml.");
  f.Tokens({"eos_token_id"}, c.vocab_size, c.eos_token_ids);
  f.Tokens({"eot_token_id"}, c.vocab_size, c.eos_token_ids);
  std::vector<int32_t> bos;
  f.Tokens({"bos_token_id"}, c.vocab_size, bos);
  if (!bos.empty()) c.bos_token_id = bos.front();
  RETURN_IF_ERROR(f.status());
  const GgufValue* tokens = file.Key("tokenizer.ggml.tokens");
  const GgufValue* types = file.Key("tokenizer.ggml.token_type");
  if (tokens == nullptr || types == nullptr) return absl::OkStatus();
  const auto names = tokens->Strings();
  const auto kinds = types->Integers();
  if (!names || !kinds) return absl::OkStatus();  // the tokenizer reports the error
  const size_t count = std::min({names->size(), kinds->size(), static_cast<size_t>(c.vocab_size)});
  for (size_t id = 0; id < count; ++id) {
    if ((*kinds)[id] != kControl) continue;
    const bool stops =
        std::find(std::begin(kStopNames), std::end(kStopNames), (*names)[id]) != std::end(kStopNames);
    const auto token = static_cast<int32_t>(id);
    if (stops && std::find(c.eos_token_ids.begin(), c.eos_token_ids.end(), token) == c.eos_token_ids.end())
      c.eos_token_ids.push_back(token);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file, const std::string& path) {
  const std::string architecture = file.Text("general.architecture");
  const bool is_deepseek = architecture == "deepseek2";
  if (!is_deepseek && architecture != "qwen3moe") {
    return absl::InvalidArgumentError(
        fmt::format("{}: key general.architecture: is {}, expected deepseek2 or qwen3moe", path,
                    architecture.empty() ? "missing" : Printable(architecture)));
  }
  ModelConfig config;
  const json fields = FieldsOf(file, architecture + ".");
  ConfigFields f(fields, path, architecture + ".");
  RETURN_IF_ERROR(ReadVocabulary(file, path, config));
  if (is_deepseek) {
    ReadDeepSeek(f, file, config);
  } else {
    ReadQwen3(f, file, config);
  }
  RETURN_IF_ERROR(f.status());
  RETURN_IF_ERROR(ReadTokens(file, path, config));
  NUMOE_CHECK_EQ(config.layer_is_moe.size(), static_cast<size_t>(config.num_layers));
  NUMOE_CHECK(config.experts_per_token <= config.num_experts && config.num_experts % config.n_group == 0);
  NUMOE_CHECK(config.rope.dim > 0 && config.rope.dim % 2 == 0);
  return config;
}

absl::StatusOr<GenerationDefaults> ReadGgufGenerationDefaults(const GgufFile& file, const std::string& path) {
  const json fields = FieldsOf(file, "general.sampling.");
  ConfigFields f(fields, path, "general.sampling.");
  GenerationDefaults defaults;
  defaults.temperature = f.Double({"temp"}, 0, 100, 1.0);
  defaults.top_p = f.Double({"top_p"}, 0, 1, 1.0);
  defaults.top_k = std::max(0, f.Int({"top_k"}, -1, limits::kVocabularyMax, 0));
  defaults.min_p = f.Double({"min_p"}, 0, 1, 0.0);
  defaults.repetition_penalty = f.Double({"penalty_repeat"}, 1e-3, 2, 1.0);
  RETURN_IF_ERROR(f.status());
  return defaults;
}

}  // namespace numoe
