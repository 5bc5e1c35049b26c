#include "common/weights/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/config_fields.h"
#include "common/weights/gguf_config.h"
#include "common/weights/gguf_model.h"
#include "common/weights/mapped_file.h"
#include "common/weights/weights_limits.h"

namespace numoe {
namespace {

using nlohmann::json;

constexpr char kFamilies[] = "one of kimi_k2, deepseek_v3, kimi_k25, qwen3_moe";

void ReadRope(ConfigFields& f, RopeConfig& rope) {
  rope.theta = f.Double({"rope_theta"}, limits::kThetaMin, limits::kThetaMax, 10000.0);
  const ConfigFields::Names names = {"rope_parameters", "rope_scaling"};
  const json* scaling = f.Object(names);
  if (scaling == nullptr) return;
  ConfigFields s(*scaling, f.file(), f.PrefixOf(f.Spelling(names)));
  rope.theta = s.Double({"rope_theta"}, limits::kThetaMin, limits::kThetaMax, rope.theta);
  const std::string type = s.String({"rope_type", "type"}, "default");
  if (type != "default" && type != "yarn") {
    s.Fail({"rope_type", "type"}, "is " + Brief(type),
           "\"default\" or \"yarn\", the only kinds this engine computes");
  }
  s.Only("mrope_section", nullptr);
  s.Only("partial_rotary_factor", 1.0);
  if (type == "yarn") {
    rope.has_yarn = true;
    rope.yarn.factor = s.Double({"factor"}, 1, 1e6);
    rope.yarn.beta_fast = s.Double({"beta_fast"}, 1e-3, 1e6, 32.0);
    rope.yarn.beta_slow = s.Double({"beta_slow"}, 1e-3, 1e6, 1.0);
    rope.yarn.mscale = s.Double({"mscale"}, 0, 100, 1.0);
    rope.yarn.mscale_all_dim = s.Double({"mscale_all_dim"}, 0, 100, 0.0);
    rope.yarn.original_max_position_embeddings =
        s.Int64({"original_max_position_embeddings"}, 1, limits::kPositionsMax);
    s.Only("truncate", true);
    s.Only("attention_factor", nullptr);
  }
  f.Absorb(s);
}

// compressed-tensors: every group must be in the format that FindMatrix reads, signed 4-bit weights with a
// scale for 32 columns.
void ReadInt4(ConfigFields& f, ModelConfig& config) {
  f.Must("format", "pack-quantized");
  f.Only("quantization_status", "compressed");
  f.Only("kv_cache_scheme", nullptr);
  const json* groups = f.Object({"config_groups"});
  if (groups == nullptr || groups->empty()) {
    return f.Fail({"config_groups"}, groups == nullptr ? "is missing" : "is {}", "a group with its weights");
  }
  for (const auto& [name, group] : groups->items()) {
    const std::string prefix = f.PrefixOf("config_groups." + Printable(name));
    if (!group.is_object()) return f.Fail({"config_groups"}, "holds " + Brief(group), "objects");
    ConfigFields g(group, f.file(), prefix);
    g.Only("format", "pack-quantized");
    g.Only("input_activations", nullptr);
    g.Only("output_activations", nullptr);
    if (const json* weights = g.Object({"weights"}); weights != nullptr) {
      ConfigFields w(*weights, f.file(), g.PrefixOf("weights"));
      w.Must("num_bits", 4);
      w.Must("type", "int");
      w.Must("symmetric", true);
      w.Must("strategy", "group");
      w.Must("group_size", 32);
      w.Only("dynamic", false);
      w.Only("actorder", nullptr);
      g.Absorb(w);
    } else {
      g.Fail({"weights"}, "is missing", "an object with num_bits and group_size");
    }
    f.Absorb(g);
  }
  config.int4_group_size = 32;
}

void ReadFp8(ConfigFields& f, ModelConfig& config) {
  f.Only("fmt", "e4m3");
  const json* block = f.Get({"weight_block_size"});
  const auto is_edge = [](const json& edge) {
    return edge.is_number_unsigned() && edge.get<uint64_t>() >= 1 &&
           edge.get<uint64_t>() <= limits::kHiddenSizeMax;
  };
  if (block == nullptr || !block->is_array() || block->size() != 2 || !is_edge((*block)[0]) ||
      !is_edge((*block)[1])) {
    return f.Fail({"weight_block_size"}, block == nullptr ? "is missing" : "is " + Brief(*block),
                  "[rows, cols] of a block, such as [128, 128]");
  }
  config.fp8_block_rows = (*block)[0].get<int>();
  config.fp8_block_cols = (*block)[1].get<int>();
}

void ReadQuantization(ConfigFields& top, ModelConfig& config) {
  const ConfigFields::Names names = {"quantization_config", "compression_config"};
  const json* quantization = top.Object(names);
  if (quantization == nullptr) return;
  ConfigFields f(*quantization, top.file(), top.PrefixOf(top.Spelling(names)));
  const std::string method = f.String({"quant_method"});
  if (method == "fp8") {
    ReadFp8(f, config);
  } else if (method == "compressed-tensors") {
    ReadInt4(f, config);
  } else {
    f.Fail({"quant_method"}, "is " + Brief(method), "\"fp8\" or \"compressed-tensors\"");
  }
  top.Absorb(f);
}

void ReadCommon(ConfigFields& f, ModelConfig& c) {
  c.hidden_size = f.Int({"hidden_size"}, 1, limits::kHiddenSizeMax);
  c.num_layers = f.Int({"num_hidden_layers"}, 1, limits::kLayersMax);
  c.vocab_size = f.Int({"vocab_size"}, 1, limits::kVocabularyMax);
  c.max_position_embeddings = f.Int64({"max_position_embeddings"}, 1, limits::kPositionsMax);
  c.rms_norm_eps = f.Double({"rms_norm_eps"}, limits::kEpsilonMin, 1);
  c.tie_word_embeddings = f.Bool({"tie_word_embeddings"}, false);
  c.num_heads = f.Int({"num_attention_heads"}, 1, limits::kHeadsMax);
  c.intermediate_size = f.Int({"intermediate_size"}, 0, limits::kIntermediateMax, 0);
  c.moe_intermediate_size = f.Int({"moe_intermediate_size"}, 1, limits::kIntermediateMax);
  c.num_experts = f.Int({"n_routed_experts", "num_experts", "num_local_experts"}, 1, limits::kExpertsMax);
  c.experts_per_token =
      f.Int({"num_experts_per_tok"}, 1, std::min(limits::kExpertsPerTokenMax, c.num_experts));
  // There are no defaults for fields that change the result unnoticed; the published files have them all.
  c.norm_topk_prob = f.Bool({"norm_topk_prob"});
  f.Only("hidden_act", "silu");
  f.Only("attention_bias", false);
  f.Tokens({"eos_token_id"}, c.vocab_size, c.eos_token_ids);
}

void ReadMoeLayersOfDeepSeek(ConfigFields& f, ModelConfig& c) {
  const int dense = f.Int({"first_k_dense_replace"}, 0, limits::kLayersMax);
  const int frequency = f.Int({"moe_layer_freq"}, 1, limits::kLayersMax, 1);
  for (int l = 0; l < c.num_layers; ++l) c.layer_is_moe.push_back(l >= dense && l % frequency == 0);
}

void ReadDeepSeek(ConfigFields& f, ModelConfig& c) {
  ReadCommon(f, c);
  c.layer_attention.assign(static_cast<size_t>(c.num_layers), AttentionKind::kMla);
  c.q_lora_rank = f.Int({"q_lora_rank"}, 0, limits::kRankMax, 0);
  c.kv_lora_rank = f.Int({"kv_lora_rank"}, 1, limits::kRankMax);
  c.qk_nope_head_dim = f.Int({"qk_nope_head_dim"}, 1, limits::kHeadDimMax);
  c.qk_rope_head_dim = f.Int({"qk_rope_head_dim"}, 2, limits::kHeadDimMax);
  if (c.qk_rope_head_dim % 2 != 0) {
    f.Fail({"qk_rope_head_dim"}, fmt::format("is {}", c.qk_rope_head_dim), "an even number");
  }
  c.v_head_dim = f.Int({"v_head_dim"}, 1, limits::kHeadDimMax);
  f.Only("rope_interleave", true);
  c.rope.layout = RopeLayout::kInterleaved;
  c.rope.dim = c.qk_rope_head_dim;
  c.num_shared_experts = f.Int({"n_shared_experts"}, 0, limits::kSharedExpertsMax, 0);
  f.Only("scoring_func", "sigmoid");
  f.Only("topk_method", "noaux_tc");
  c.scoring = GateScoring::kSigmoidNoAuxTc;
  c.n_group = f.Int({"n_group"}, 1, c.num_experts);
  c.topk_group = f.Int({"topk_group"}, 1, c.n_group);
  if (c.num_experts % c.n_group != 0 || c.num_experts / c.n_group * c.topk_group < c.experts_per_token) {
    f.Fail({"n_group"}, fmt::format("is {} with topk_group {}", c.n_group, c.topk_group),
           fmt::format("a divisor of {} experts that leaves {} to choose from", c.num_experts,
                       c.experts_per_token));
  }
  c.routed_scaling_factor = f.Double({"routed_scaling_factor"}, 1e-6, 1e6);
  ReadMoeLayersOfDeepSeek(f, c);
  ReadRope(f, c.rope);
}

void ReadMoeLayersOfQwen3(ConfigFields& f, ModelConfig& c) {
  const int sparse_step = f.Int({"decoder_sparse_step"}, 1, limits::kLayersMax, 1);
  std::set<int64_t> dense;
  if (const json* list = f.Get({"mlp_only_layers"}); list != nullptr) {
    bool good = list->is_array();
    for (const json& layer : *list) {
      good =
          good && layer.is_number_unsigned() && layer.get<uint64_t>() < static_cast<uint64_t>(c.num_layers);
      if (good) dense.insert(layer.get<int64_t>());
    }
    if (!good) {
      f.Fail({"mlp_only_layers"}, "is " + Brief(*list),
             fmt::format("a list of layers from 0 to {}", c.num_layers - 1));
    }
  }
  for (int l = 0; l < c.num_layers; ++l)
    c.layer_is_moe.push_back(dense.count(l) == 0 && (l + 1) % sparse_step == 0);
}

void ReadQwen3(ConfigFields& f, ModelConfig& c) {
  ReadCommon(f, c);
  c.layer_attention.assign(static_cast<size_t>(c.num_layers), AttentionKind::kGqa);
  c.num_kv_heads = f.Int({"num_key_value_heads"}, 1, c.num_heads);
  if (c.num_heads % c.num_kv_heads != 0) {
    f.Fail({"num_key_value_heads"}, fmt::format("is {}", c.num_kv_heads),
           fmt::format("a divisor of {} heads", c.num_heads));
  }
  c.head_dim = f.Int({"head_dim"}, 2, limits::kHeadDimMax, c.hidden_size / c.num_heads);
  if (c.head_dim % 2 != 0 || c.head_dim < 2 || c.head_dim > limits::kHeadDimMax) {
    f.Fail({"head_dim"}, fmt::format("is {}", c.head_dim),
           fmt::format("an even number from 2 to {}", limits::kHeadDimMax));
  }
  c.rope.layout = RopeLayout::kHalf;
  c.rope.dim = c.head_dim;
  c.scoring = GateScoring::kSoftmax;
  f.Only("use_sliding_window", false);
  if (const json* types = f.Get({"layer_types"}); types != nullptr) {
    for (const json& type : *types) {
      if (type != "full_attention")
        f.Fail({"layer_types"}, "holds " + Brief(type), "\"full_attention\" only");
    }
  }
  ReadMoeLayersOfQwen3(f, c);
  ReadRope(f, c.rope);
}

void CheckDenseLayers(ConfigFields& f, const ModelConfig& c) {
  const bool any_dense =
      std::find(c.layer_is_moe.begin(), c.layer_is_moe.end(), false) != c.layer_is_moe.end();
  if (!any_dense || c.intermediate_size > 0) return;
  f.Fail({"intermediate_size"}, f.Get({"intermediate_size"}) == nullptr ? "is missing" : "is 0",
         "the width of the dense layers' MLP");
}

absl::StatusOr<json> ParseObject(std::string_view text, std::string_view file) {
  ASSIGN_OR_RETURN(json root, ParseStrictJson(text, file));
  if (root.is_object()) return root;
  return absl::InvalidArgumentError(fmt::format("{}: {}, expected a JSON object", file, Brief(root)));
}

absl::StatusOr<json> ReadObject(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
  return ParseObject(text, path.string());
}

// generation_config.json is optional, but if it exists and cannot be read, that is an error.
absl::StatusOr<json> ReadGenerationConfig(const std::filesystem::path& path) {
  absl::StatusOr<json> root = ReadObject(path);
  if (absl::IsNotFound(root.status())) return json::object();
  return root;
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view text, std::string_view file) {
  ASSIGN_OR_RETURN(const json root, ParseObject(text, file));
  ConfigFields top(root, file);
  ModelConfig config;
  if (top.Get({"model_type"}) == nullptr) top.Fail({"model_type"}, "is missing", kFamilies);
  config.model_type = top.String({"model_type"});
  RETURN_IF_ERROR(top.status());
  const bool is_multimodal = config.model_type == "kimi_k25";
  const json* inner = &root;
  if (is_multimodal) {
    config.tensor_prefix = "language_model.";
    inner = top.Object({"text_config"});
    if (inner == nullptr) top.Fail({"text_config"}, "is missing", "the text model's configuration");
    RETURN_IF_ERROR(top.status());
  }
  ConfigFields f(*inner, file, is_multimodal ? "text_config." : "");
  const std::string family = f.String({"model_type"}, "kimi_k2");
  if (family == "kimi_k2" || family == "deepseek_v3") {
    ReadDeepSeek(f, config);
  } else if (family == "qwen3_moe" && !is_multimodal) {
    ReadQwen3(f, config);
  } else {
    f.Fail({"model_type"}, "is " + Brief(family), is_multimodal ? "kimi_k2 or deepseek_v3" : kFamilies);
  }
  CheckDenseLayers(f, config);
  ReadQuantization(f, config);
  std::vector<int32_t> bos;
  f.Tokens({"bos_token_id"}, config.vocab_size, bos);
  RETURN_IF_ERROR(f.status());
  if (is_multimodal) {
    ReadQuantization(top, config);
    top.Tokens({"eos_token_id"}, config.vocab_size, config.eos_token_ids);
    top.Tokens({"bos_token_id"}, config.vocab_size, bos);
    RETURN_IF_ERROR(top.status());
  }
  if (!bos.empty()) config.bos_token_id = bos.front();
  NUMOE_CHECK_EQ(config.layer_is_moe.size(), static_cast<size_t>(config.num_layers));
  NUMOE_CHECK(config.experts_per_token <= config.num_experts && config.num_experts % config.n_group == 0);
  NUMOE_CHECK(config.rope.dim > 0 && config.rope.dim % 2 == 0);
  return config;
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& dir) {
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> gguf, GgufModel::Locate(dir));
  if (gguf) {
    ASSIGN_OR_RETURN(const auto model, GgufModel::Open(*gguf));
    return ReadGgufConfig(model->contents(), model->path());
  }
  const std::filesystem::path path = dir / "config.json";
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
  ASSIGN_OR_RETURN(ModelConfig config, ParseModelConfig(text, path.string()));
  const std::filesystem::path generation_path = dir / "generation_config.json";
  ASSIGN_OR_RETURN(const json generation, ReadGenerationConfig(generation_path));
  ConfigFields f(generation, generation_path.string());
  f.Tokens({"eos_token_id"}, config.vocab_size, config.eos_token_ids);
  RETURN_IF_ERROR(f.status());
  return config;
}

absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::filesystem::path& dir) {
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> gguf, GgufModel::Locate(dir));
  if (gguf) {
    ASSIGN_OR_RETURN(const auto model, GgufModel::Open(*gguf));
    return ReadGgufGenerationDefaults(model->contents(), model->path());
  }
  const std::filesystem::path path = dir / "generation_config.json";
  ASSIGN_OR_RETURN(const json root, ReadGenerationConfig(path));
  ConfigFields f(root, path.string());
  GenerationDefaults defaults;
  defaults.temperature = f.Double({"temperature"}, 0, 100, 1.0);
  defaults.top_p = f.Double({"top_p"}, 0, 1, 1.0);
  defaults.top_k =
      std::max(0, f.Int({"top_k"}, -1, limits::kVocabularyMax, 0));  // some files have -1 for off
  defaults.min_p = f.Double({"min_p"}, 0, 1, 0.0);
  defaults.repetition_penalty = f.Double({"repetition_penalty"}, 1e-3, 2, 1.0);
  RETURN_IF_ERROR(f.status());
  return defaults;
}

}  // namespace numoe
