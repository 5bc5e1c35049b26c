#include "common/weights/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/weights/json_reader.h"
#include "common/weights/mapped_file.h"

namespace numoe {
namespace {

using nlohmann::json;

// Reads typed fields of one JSON object and keeps the first error, so that a family reads as a list of fields.
class Fields {
 public:
  Fields(const json& object, std::string_view file, std::string prefix = "")
      : object_(object), file_(file), prefix_(std::move(prefix)) {}

  const absl::Status& status() const { return status_; }
  /// The first of several spellings that is present and not null, or nullptr.
  const json* Get(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const auto it = object_.find(name);
      if (it != object_.end() && !it->is_null()) return &*it;
    }
    return nullptr;
  }
  int Int(std::initializer_list<const char*> names, int64_t low, int64_t high, std::optional<int> fallback = {}) {
    return static_cast<int>(Int64(names, low, high, fallback));
  }
  int64_t Int64(std::initializer_list<const char*> names, int64_t low, int64_t high,
                std::optional<int64_t> fallback = {}) {
    const json* value = Get(names);
    if (value == nullptr && fallback) return *fallback;
    const auto wanted = [&] { return fmt::format("an integer from {} to {}", low, high); };
    if (value == nullptr) return Fail(names, "is missing", wanted());
    if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) ||
        value->get<int64_t>() < low || value->get<int64_t>() > high) {
      return Fail(names, "is " + value->dump(), wanted());
    }
    return value->get<int64_t>();
  }
  double Double(std::initializer_list<const char*> names, double low, double high, std::optional<double> fallback = {}) {
    const json* value = Get(names);
    if (value == nullptr && fallback) return *fallback;
    const auto wanted = [&] { return fmt::format("a number from {} to {}", low, high); };
    if (value == nullptr) return Fail(names, "is missing", wanted());
    if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high)) {
      return Fail(names, "is " + value->dump(), wanted());
    }
    return value->get<double>();
  }
  bool Bool(std::initializer_list<const char*> names, bool fallback) {
    const json* value = Get(names);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) return Fail(names, "is " + value->dump(), "true or false") != 0;
    return value->get<bool>();
  }
  std::string String(std::initializer_list<const char*> names, const std::string& fallback) {
    const json* value = Get(names);
    if (value == nullptr) return fallback;
    if (!value->is_string()) Fail(names, "is " + value->dump(), "a string");
    return value->is_string() ? value->get<std::string>() : fallback;
  }
  /// Fails unless the field is absent, null or equal to `only`: a feature this engine does not compute.
  void Only(const char* name, const json& only) {
    const json* value = Get({name});
    if (value != nullptr && *value != only) Fail({name}, "is " + value->dump(), only.dump() + " (nothing else is supported)");
  }
  int64_t Fail(std::initializer_list<const char*> names, const std::string& found, const std::string& expected) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(
          fmt::format("{}: {}{} {}, expected {}", file_, prefix_, *names.begin(), found, expected));
    }
    return 0;
  }

 private:
  const json& object_;
  const std::string_view file_;
  const std::string prefix_;
  absl::Status status_;
};

absl::Status ReadRope(const json& root, std::string_view file, RopeConfig& rope) {
  Fields top(root, file);
  rope.theta = top.Double({"rope_theta"}, 1, 1e12, 10000.0);
  const json* scaling = top.Get({"rope_parameters", "rope_scaling"});
  RETURN_IF_ERROR(top.status());
  if (scaling == nullptr) return absl::OkStatus();
  if (!scaling->is_object()) {
    return absl::InvalidArgumentError(fmt::format("{}: rope_scaling is {}, expected an object", file, scaling->dump()));
  }
  Fields f(*scaling, file, "rope_scaling.");
  rope.theta = f.Double({"rope_theta"}, 1, 1e12, rope.theta);
  const std::string type = f.String({"rope_type", "type"}, "default");
  if (type != "default" && type != "yarn") f.Fail({"rope_type"}, "is \"" + type + "\"", "\"default\" or \"yarn\"");
  if (type == "yarn") {
    rope.has_yarn = true;
    rope.yarn.factor = f.Double({"factor"}, 1, 1e6);
    rope.yarn.beta_fast = f.Double({"beta_fast"}, 1e-3, 1e6, 32.0);
    rope.yarn.beta_slow = f.Double({"beta_slow"}, 1e-3, 1e6, 1.0);
    rope.yarn.mscale = f.Double({"mscale"}, 0, 100, 1.0);
    rope.yarn.mscale_all_dim = f.Double({"mscale_all_dim"}, 0, 100, 0.0);
    rope.yarn.original_max_position_embeddings = f.Int64({"original_max_position_embeddings"}, 1, int64_t{1} << 40);
  }
  return f.status();
}

absl::Status ReadInt4Groups(const json& quantization, std::string_view file, ModelConfig& config) {
  const json* groups = Fields(quantization, file).Get({"config_groups"});
  if (groups == nullptr || !groups->is_object()) return absl::OkStatus();
  for (const auto& [name, group] : groups->items()) {
    if (!group.is_object() || !group.contains("weights") || !group["weights"].is_object()) continue;
    Fields weights(group["weights"], file, "quantization_config.config_groups." + name + ".weights.");
    weights.Only("num_bits", 4);
    weights.Only("type", "int");
    weights.Only("symmetric", true);
    weights.Only("strategy", "group");
    weights.Only("group_size", 32);
    config.int4_group_size = 32;
    weights.Only("actorder", nullptr);
    RETURN_IF_ERROR(weights.status());
  }
  return absl::OkStatus();
}

absl::Status ReadQuantization(const json& root, std::string_view file, ModelConfig& config) {
  Fields top(root, file);
  const json* quantization = top.Get({"quantization_config", "compression_config"});
  if (quantization == nullptr) return absl::OkStatus();
  if (!quantization->is_object()) top.Fail({"quantization_config"}, "is " + quantization->dump(), "an object");
  RETURN_IF_ERROR(top.status());
  Fields f(*quantization, file, "quantization_config.");
  const std::string method = f.String({"quant_method"}, "");
  if (method == "fp8") {
    const json* block = f.Get({"weight_block_size"});
    const bool good = block != nullptr && block->is_array() && block->size() == 2 && (*block)[0].is_number_unsigned() &&
                      (*block)[1].is_number_unsigned() && (*block)[0].get<uint64_t>() - 1 < 65536 &&
                      (*block)[1].get<uint64_t>() - 1 < 65536;
    if (!good) f.Fail({"weight_block_size"}, block == nullptr ? "is missing" : "is " + block->dump(), "[rows, cols]");
    RETURN_IF_ERROR(f.status());
    config.fp8_block_rows = (*block)[0].get<int>();
    config.fp8_block_cols = (*block)[1].get<int>();
  } else if (method == "compressed-tensors") {
    f.Only("format", "pack-quantized");
    RETURN_IF_ERROR(f.status());
    return ReadInt4Groups(*quantization, file, config);
  } else {
    f.Fail({"quant_method"}, "is \"" + method + "\"", "\"fp8\" or \"compressed-tensors\"");
  }
  return f.status();
}

void AddTokens(const json* value, std::vector<int32_t>& ids) {
  if (value == nullptr) return;
  const auto add = [&](const json& id) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) return;
    const int32_t token = id.get<int32_t>();
    if (std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
  };
  if (value->is_array()) {
    for (const json& id : *value) add(id);
  } else {
    add(*value);
  }
}

void ReadCommon(Fields& f, ModelConfig& c) {
  c.hidden_size = f.Int({"hidden_size"}, 1, limits::kHiddenSizeMax);
  c.num_layers = f.Int({"num_hidden_layers"}, 1, limits::kLayersMax);
  c.vocab_size = f.Int({"vocab_size"}, 1, 1 << 24);
  c.max_position_embeddings = f.Int64({"max_position_embeddings"}, 1, int64_t{1} << 31);
  c.rms_norm_eps = f.Double({"rms_norm_eps"}, 0, 1, 1e-6);
  c.tie_word_embeddings = f.Bool({"tie_word_embeddings"}, false);
  c.num_heads = f.Int({"num_attention_heads"}, 1, 4096);
  c.intermediate_size = f.Int({"intermediate_size"}, 0, 1 << 22, 0);
  c.moe_intermediate_size = f.Int({"moe_intermediate_size"}, 1, 1 << 22);
  c.num_experts = f.Int({"n_routed_experts", "num_experts", "num_local_experts"}, 1, limits::kExpertsMax);
  c.experts_per_token = f.Int({"num_experts_per_tok"}, 1, std::min(limits::kExpertsPerTokenMax, std::max(c.num_experts, 1)));
  c.norm_topk_prob = f.Bool({"norm_topk_prob"}, true);
  f.Only("hidden_act", "silu");
  f.Only("attention_bias", false);
}

absl::Status ReadDeepSeek(const json& root, std::string_view file, ModelConfig& c) {
  Fields f(root, file);
  ReadCommon(f, c);
  c.attention = AttentionKind::kMla;
  c.q_lora_rank = f.Int({"q_lora_rank"}, 0, 1 << 20, 0);
  c.kv_lora_rank = f.Int({"kv_lora_rank"}, 1, 1 << 16);
  c.qk_nope_head_dim = f.Int({"qk_nope_head_dim"}, 1, 1 << 12);
  c.qk_rope_head_dim = f.Int({"qk_rope_head_dim"}, 2, 1 << 12);
  if (c.qk_rope_head_dim % 2 != 0) f.Fail({"qk_rope_head_dim"}, fmt::format("is {}", c.qk_rope_head_dim), "an even number");
  c.v_head_dim = f.Int({"v_head_dim"}, 1, 1 << 12);
  c.rope.layout = RopeLayout::kInterleaved;
  c.rope.dim = c.qk_rope_head_dim;
  c.num_shared_experts = f.Int({"n_shared_experts"}, 0, 64, 0);
  f.Only("scoring_func", "sigmoid");
  f.Only("topk_method", "noaux_tc");
  c.scoring = GateScoring::kSigmoidNoAuxTc;
  c.n_group = f.Int({"n_group"}, 1, std::max(c.num_experts, 1), 1);
  c.topk_group = f.Int({"topk_group"}, 1, c.n_group, 1);
  if (c.num_experts % c.n_group != 0 || c.num_experts / c.n_group * c.topk_group < c.experts_per_token) {
    f.Fail({"n_group"}, fmt::format("is {} with topk_group {}", c.n_group, c.topk_group),
           fmt::format("a divisor of {} experts that leaves {} to choose from", c.num_experts, c.experts_per_token));
  }
  c.routed_scaling_factor = f.Double({"routed_scaling_factor"}, 1e-6, 1e6, 1.0);
  const int dense = f.Int({"first_k_dense_replace"}, 0, limits::kLayersMax, 0);
  const int frequency = f.Int({"moe_layer_freq"}, 1, limits::kLayersMax, 1);
  RETURN_IF_ERROR(f.status());
  for (int l = 0; l < c.num_layers; ++l) c.layer_is_moe.push_back(l >= dense && l % frequency == 0);
  return ReadRope(root, file, c.rope);
}

absl::Status ReadQwen3(const json& root, std::string_view file, ModelConfig& c) {
  Fields f(root, file);
  ReadCommon(f, c);
  c.attention = AttentionKind::kGqa;
  c.num_kv_heads = f.Int({"num_key_value_heads"}, 1, 4096);
  if (c.num_kv_heads == 0 || c.num_heads % c.num_kv_heads != 0) {
    f.Fail({"num_key_value_heads"}, fmt::format("is {}", c.num_kv_heads), fmt::format("a divisor of {}", c.num_heads));
  }
  c.head_dim = f.Int({"head_dim"}, 2, 1 << 12, c.num_heads > 0 ? c.hidden_size / c.num_heads : 0);
  if (c.head_dim % 2 != 0) f.Fail({"head_dim"}, fmt::format("is {}", c.head_dim), "an even number");
  c.rope.layout = RopeLayout::kHalf;
  c.rope.dim = c.head_dim;
  c.scoring = GateScoring::kSoftmax;
  f.Only("use_sliding_window", false);
  const int sparse_step = f.Int({"decoder_sparse_step"}, 1, limits::kLayersMax, 1);
  std::set<int64_t> dense;
  if (const json* list = f.Get({"mlp_only_layers"}); list != nullptr) {
    if (!list->is_array()) f.Fail({"mlp_only_layers"}, "is " + list->dump(), "a list of layers");
    for (const json& layer : *list) {
      if (layer.is_number_integer()) dense.insert(layer.get<int64_t>());
    }
  }
  RETURN_IF_ERROR(f.status());
  for (int l = 0; l < c.num_layers; ++l) c.layer_is_moe.push_back(dense.count(l) == 0 && (l + 1) % sparse_step == 0);
  return ReadRope(root, file, c.rope);
}

absl::Status CheckDenseLayers(std::string_view file, const ModelConfig& c) {
  const bool any_dense = std::find(c.layer_is_moe.begin(), c.layer_is_moe.end(), false) != c.layer_is_moe.end();
  if (!any_dense || c.intermediate_size > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: intermediate_size is missing, expected it because some layers are dense", file));
}

absl::StatusOr<json> ReadJson(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
  ASSIGN_OR_RETURN(json root, ParseStrictJson(text, path.string()));
  if (!root.is_object()) return absl::InvalidArgumentError(path.string() + ": expected a JSON object");
  return root;
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view text, std::string_view file) {
  ASSIGN_OR_RETURN(const json root, ParseStrictJson(text, file));
  if (!root.is_object()) return absl::InvalidArgumentError(fmt::format("{}: expected a JSON object", file));
  Fields top(root, file);
  ModelConfig config;
  config.model_type = top.String({"model_type"}, "");
  RETURN_IF_ERROR(top.status());
  const json* text_config = &root;
  if (config.model_type == "kimi_k25") {
    config.tensor_prefix = "language_model.";
    text_config = top.Get({"text_config"});
    if (text_config == nullptr || !text_config->is_object()) {
      return absl::InvalidArgumentError(fmt::format("{}: text_config is missing, expected it for kimi_k25", file));
    }
  }
  if (config.model_type == "kimi_k2" || config.model_type == "deepseek_v3" || config.model_type == "kimi_k25") {
    RETURN_IF_ERROR(ReadDeepSeek(*text_config, file, config));
  } else if (config.model_type == "qwen3_moe") {
    RETURN_IF_ERROR(ReadQwen3(root, file, config));
  } else {
    return absl::InvalidArgumentError(fmt::format("{}: model_type is \"{}\", expected one of kimi_k2, deepseek_v3, "
                                                  "kimi_k25, qwen3_moe", file, config.model_type));
  }
  RETURN_IF_ERROR(CheckDenseLayers(file, config));
  RETURN_IF_ERROR(ReadQuantization(*text_config, file, config));
  if (text_config != &root) RETURN_IF_ERROR(ReadQuantization(root, file, config));
  const Fields inner(*text_config, file);
  AddTokens(top.Get({"eos_token_id"}), config.eos_token_ids);
  AddTokens(inner.Get({"eos_token_id"}), config.eos_token_ids);
  std::vector<int32_t> bos;
  AddTokens(top.Get({"bos_token_id"}), bos);
  AddTokens(inner.Get({"bos_token_id"}), bos);
  if (!bos.empty()) config.bos_token_id = bos.front();
  return config;
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / "config.json";
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
  ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(text, path.string()));
  if (std::filesystem::exists(dir / "generation_config.json")) {
    ASSIGN_OR_RETURN(const json generation, ReadJson(dir / "generation_config.json"));
    AddTokens(Fields(generation, "generation_config.json").Get({"eos_token_id"}), config.eos_token_ids);
  }
  return config;
}

absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::filesystem::path& dir) {
  const std::filesystem::path path = dir / "generation_config.json";
  GenerationDefaults defaults;
  if (!std::filesystem::exists(path)) return defaults;
  ASSIGN_OR_RETURN(const json root, ReadJson(path));
  const std::string name = path.string();
  Fields f(root, name);
  defaults.temperature = f.Double({"temperature"}, 0, 100, 1.0);
  defaults.top_p = f.Double({"top_p"}, 0, 1, 1.0);
  defaults.top_k = f.Int({"top_k"}, 0, 1 << 24, 0);
  defaults.min_p = f.Double({"min_p"}, 0, 1, 0.0);
  RETURN_IF_ERROR(f.status());
  return defaults;
}

}  // namespace numoe
