// The architecture of a model, from a checkpoint's config.json or a GGUF file's metadata, in the same fields
// for every model family.
//
// It reads model_type kimi_k2, deepseek_v3, kimi_k25 (its text_config; tensor names have a prefix) and
// qwen3_moe, in the spellings of old and new transformers (torch_dtype/dtype, rope_scaling/rope_parameters,
// type/rope_type, num_experts/num_local_experts/n_routed_experts). Every value is checked. A wrong one is
// InvalidArgument with the file, the field, what was found and what was expected.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe {

enum class AttentionKind : uint8_t { kMla, kGqa };
enum class RopeLayout : uint8_t { kInterleaved, kHalf };  // GPT-J pairs (2i, 2i+1) | NeoX pairs (i, i + d/2)
enum class GateScoring : uint8_t { kSigmoidNoAuxTc, kSoftmax };

struct YarnConfig {  // https://arxiv.org/abs/2309.00071
  double factor = 1.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double mscale = 1.0;
  double mscale_all_dim = 0.0;
  int64_t original_max_position_embeddings = 0;  // tokens
};

struct RopeConfig {
  RopeLayout layout = RopeLayout::kInterleaved;
  double theta = 10000.0;
  int dim = 0;  // rotated channels per head
  bool has_yarn = false;
  YarnConfig yarn;
};

struct ModelConfig {
  std::string model_type;     // as published: kimi_k2 | deepseek_v3 | kimi_k25 | qwen3_moe
  std::string tensor_prefix;  // "" or "language_model."
  int hidden_size = 0;
  int num_layers = 0;
  int vocab_size = 0;
  int64_t max_position_embeddings = 0;  // tokens
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;

  std::vector<AttentionKind> layer_attention;  // [num_layers]
  int num_heads = 0;
  int num_kv_heads = 0;      // GQA only
  int head_dim = 0;          // GQA only
  int q_lora_rank = 0;       // MLA; 0 means one plain q_proj
  int kv_lora_rank = 0;      // MLA: compressed cache channels (512)
  int qk_nope_head_dim = 0;  // MLA
  int qk_rope_head_dim = 0;  // MLA
  int v_head_dim = 0;        // MLA
  RopeConfig rope;

  int intermediate_size = 0;      // dense layers' MLP
  int moe_intermediate_size = 0;  // one routed expert
  int num_experts = 0;
  int experts_per_token = 0;
  int num_shared_experts = 0;      // merged in one MLP of moe_intermediate_size * num_shared_experts
  std::vector<bool> layer_is_moe;  // [num_layers]

  GateScoring scoring = GateScoring::kSigmoidNoAuxTc;
  int n_group = 1;
  int topk_group = 1;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1.0;

  int fp8_block_rows = 128;  // quantization_config.weight_block_size; used by block FP8 tensors only
  int fp8_block_cols = 128;
  int int4_group_size = 32;  // used by pack-quantized tensors only

  int32_t bos_token_id = -1;           // -1 if there is none
  std::vector<int32_t> eos_token_ids;  // all that config and generation_config or GGUF keys name

  /// Returns the number of layers with this kind of attention.
  int LayersOf(AttentionKind kind) const {
    return static_cast<int>(std::count(layer_attention.begin(), layer_attention.end(), kind));
  }
};

/// The sampling defaults of a checkpoint (generation_config.json); a request may override each.
struct GenerationDefaults {
  double temperature = 1.0;
  double top_p = 1.0;
  int top_k = 0;  // 0 means off
  double min_p = 0.0;
  double repetition_penalty = 1.0;
};

/// Parses the text of a config.json. `file` is used in error messages only.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json, std::string_view file);
/// Reads MODEL/config.json and, if it exists, MODEL/generation_config.json (for the stop tokens), or the
/// metadata of the GGUF file that `model` means (gguf_config.h).
absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& model);
/// Reads MODEL/generation_config.json or a GGUF file's general.sampling; what is absent gets its default.
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::filesystem::path& model);

}  // namespace numoe
