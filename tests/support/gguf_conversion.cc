#include "tests/support/gguf_conversion.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "common/formats/fp16.h"
#include "common/formats/int4.h"
#include "tests/support/ggml_encode.h"

namespace numoe {
namespace {

enum class Role : uint8_t { kDense, kRouter, kKvB, kExpert };

struct Linear {
  std::string module;
  std::string gguf;  // "" for kKvB and kExpert, which are stored in ways of their own
  int rows;
  int cols;
  Role role = Role::kDense;
};

struct Norm {
  std::string tensor;
  std::string gguf;
  int size;
  bool is_bias = false;
};

struct Parts {
  std::vector<Linear> linears;
  std::vector<Norm> norms;
};

void AddAttention(const ModelConfig& c, const std::string& layer, const std::string& blk, Parts& p) {
  const std::string attention = layer + "self_attn.";
  const auto add = [&](const char* name, const char* gguf, int rows, int cols, Role role = Role::kDense) {
    p.linears.push_back({attention + name, blk + gguf, rows, cols, role});
  };
  const auto norm = [&](const char* name, const char* gguf, int size) {
    p.norms.push_back({attention + name, blk + gguf, size});
  };
  if (c.LayersOf(AttentionKind::kGqa) > 0) {
    add("q_proj", "attn_q.weight", c.num_heads * c.head_dim, c.hidden_size);
    add("k_proj", "attn_k.weight", c.num_kv_heads * c.head_dim, c.hidden_size);
    add("v_proj", "attn_v.weight", c.num_kv_heads * c.head_dim, c.hidden_size);
    add("o_proj", "attn_output.weight", c.hidden_size, c.num_heads * c.head_dim);
    norm("q_norm.weight", "attn_q_norm.weight", c.head_dim);
    norm("k_norm.weight", "attn_k_norm.weight", c.head_dim);
    return;
  }
  const int query = c.num_heads * (c.qk_nope_head_dim + c.qk_rope_head_dim);
  if (c.q_lora_rank > 0) {
    add("q_a_proj", "attn_q_a.weight", c.q_lora_rank, c.hidden_size);
    norm("q_a_layernorm.weight", "attn_q_a_norm.weight", c.q_lora_rank);
    add("q_b_proj", "attn_q_b.weight", query, c.q_lora_rank);
  } else {
    add("q_proj", "attn_q.weight", query, c.hidden_size);
  }
  add("kv_a_proj_with_mqa", "attn_kv_a_mqa.weight", c.kv_lora_rank + c.qk_rope_head_dim, c.hidden_size);
  norm("kv_a_layernorm.weight", "attn_kv_a_norm.weight", c.kv_lora_rank);
  add("kv_b_proj", "", c.num_heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank, Role::kKvB);
  add("o_proj", "attn_output.weight", c.hidden_size, c.num_heads * c.v_head_dim);
}

void AddMlp(const ModelConfig& c, const std::string& module, const std::string& blk, const char* suffix,
            int width, Role role, Parts& p) {
  for (const char* part : {"gate", "up"}) {
    p.linears.push_back({fmt::format("{}{}_proj", module, part),
                         fmt::format("{}ffn_{}{}.weight", blk, part, suffix), width, c.hidden_size, role});
  }
  p.linears.push_back(
      {module + "down_proj", fmt::format("{}ffn_down{}.weight", blk, suffix), c.hidden_size, width, role});
}

void AddLayer(const ModelConfig& c, int l, Parts& p) {
  const std::string layer = fmt::format("{}model.layers.{}.", c.tensor_prefix, l),
                    blk = fmt::format("blk.{}.", l);
  p.norms.push_back({layer + "input_layernorm.weight", blk + "attn_norm.weight", c.hidden_size});
  p.norms.push_back({layer + "post_attention_layernorm.weight", blk + "ffn_norm.weight", c.hidden_size});
  AddAttention(c, layer, blk, p);
  if (!c.layer_is_moe[static_cast<size_t>(l)])
    return AddMlp(c, layer + "mlp.", blk, "", c.intermediate_size, Role::kDense, p);
  p.linears.push_back(
      {layer + "mlp.gate", blk + "ffn_gate_inp.weight", c.num_experts, c.hidden_size, Role::kRouter});
  if (c.scoring == GateScoring::kSigmoidNoAuxTc) {
    p.norms.push_back({layer + "mlp.gate.e_score_correction_bias", blk + "exp_probs_b.bias", c.num_experts,
                       /*is_bias=*/true});
  }
  if (c.num_shared_experts > 0) {
    AddMlp(c, layer + "mlp.shared_experts.", blk, "_shexp", c.num_shared_experts * c.moe_intermediate_size,
           Role::kDense, p);
  }
  for (int e = 0; e < c.num_experts; ++e)
    AddMlp(c, fmt::format("{}mlp.experts.{}.", layer, e), blk, "", c.moe_intermediate_size, Role::kExpert, p);
}

Parts PartsOf(const ModelConfig& c) {
  Parts p;
  p.linears.push_back(
      {c.tensor_prefix + "model.embed_tokens", "token_embd.weight", c.vocab_size, c.hidden_size});
  p.norms.push_back({c.tensor_prefix + "model.norm.weight", "output_norm.weight", c.hidden_size});
  if (!c.tie_word_embeddings)
    p.linears.push_back({c.tensor_prefix + "lm_head", "output.weight", c.vocab_size, c.hidden_size});
  for (int l = 0; l < c.num_layers; ++l) AddLayer(c, l, p);
  return p;
}

GgmlType Fitting(GgmlType type, int cols) {
  if (cols % TraitsOf(type).block_values == 0) return type;
  return cols % 32 == 0 ? GgmlType::kQ8_0 : GgmlType::kF32;
}

class Converter {
 public:
  Converter(const Checkpoint& source, const ModelConfig& config, const GgufOptions& options)
      : source_(source), config_(config), options_(options) {}

  GgufConversion Convert() {
    SetKeys();
    const Parts parts = PartsOf(config_);
    for (const Norm& norm : parts.norms) AddNorm(norm);
    for (const Linear& linear : parts.linears) {
      if (linear.role == Role::kKvB) {
        AddKvB(linear);
      } else if (linear.role != Role::kExpert) {
        const GgmlType type = linear.role == Role::kRouter ? GgmlType::kF32 : options_.dense;
        Store(linear.gguf, Fitting(type, linear.cols), {linear.rows, linear.cols}, Read(linear),
              linear.module);
      }
    }
    AddExperts(parts.linears);
    return std::move(out_);
  }

 private:
  std::vector<float> Read(const Linear& linear) const {
    const auto view = source_.FindMatrix(linear.module, linear.rows, linear.cols, config_);
    NUMOE_CHECK(view.ok()) << view.status();
    std::vector<float> values(static_cast<size_t>(linear.rows) * static_cast<size_t>(linear.cols));
    DecodeMatrix(*view, 0, linear.rows, 0, linear.cols, absl::MakeSpan(values));
    return values;
  }

  // Encodes; returns the blocks and makes `values` what they stand for.
  static std::vector<std::byte> Encode(GgmlType type, std::vector<float>& values) {
    std::vector<std::byte> blocks = EncodeGgml(type, values);
    DecodeGgmlBlocks(type, blocks.data(), static_cast<int64_t>(values.size()) / TraitsOf(type).block_values,
                     values.data());
    return blocks;
  }

  // INT4 groups are Q4_0 blocks in another order, their BF16 scales fp16 numbers: converters keep them as
  // they are.
  std::vector<std::byte> EncodeExpert(const Linear& linear, GgmlType type, std::vector<float>& values) const {
    const auto view = source_.FindMatrix(linear.module, linear.rows, linear.cols, config_);
    if (type != GgmlType::kQ4_0 || view->format != MatrixFormat::kInt4Group) return Encode(type, values);
    NUMOE_CHECK(view->scale_dtype == DType::kBF16) << linear.module;
    std::vector<std::byte> blocks;
    for (int64_t i = 0; i < view->rows * view->cols; i += kInt4GroupSize) {
      uint16_t scale = 0;
      std::memcpy(&scale, view->scales.data() + i / kInt4GroupSize * 2, sizeof scale);
      const uint16_t d = EncodeF16(DecodeBf16(scale));
      NUMOE_CHECK_EQ(DecodeF16(d), DecodeBf16(scale)) << linear.module;
      blocks.push_back(static_cast<std::byte>(d & 255));
      blocks.push_back(static_cast<std::byte>(d >> 8));
      for (int j = 0; j < 16; ++j) {
        const int low = DecodeInt4(view->data.data(), i + j) + 8,
                  high = DecodeInt4(view->data.data(), i + j + 16) + 8;
        blocks.push_back(static_cast<std::byte>(low | (high << 4)));
      }
    }
    return blocks;
  }

  void Store(const std::string& gguf, GgmlType type, const Shape& shape, std::vector<float> values,
             const std::string& module) {
    out_.gguf.AddTensor(gguf, type, shape, Encode(type, values));
    out_.decoded.Add(module + ".weight", DType::kF32, shape, BytesOf(values));
  }

  void AddNorm(const Norm& norm) {
    const auto values = source_.ReadVector(norm.tensor, norm.size);
    NUMOE_CHECK(values.ok()) << values.status();
    out_.gguf.AddTensor(norm.gguf, GgmlType::kF32, {norm.size}, BytesOf(*values));
    out_.decoded.Add(norm.tensor, DType::kF32, {norm.size}, BytesOf(*values));
  }

  // [heads, nope + value, latent]; in halves the key's is [heads, latent, nope].
  void AddKvB(const Linear& linear) {
    const int heads = config_.num_heads, nope = config_.qk_nope_head_dim, value = config_.v_head_dim;
    const int latent = linear.cols;
    const std::string blk = linear.module.substr(linear.module.find("layers.") + 7);
    const std::string name = fmt::format("blk.{}.attn_", blk.substr(0, blk.find('.')));
    std::vector<float> whole = Read(linear);
    if (!options_.split_kv_b) {
      return Store(name + "kv_b.weight", Fitting(options_.dense, latent), {linear.rows, latent},
                   std::move(whole), linear.module);
    }
    std::vector<float> keys, values;
    const auto at = [&](int h, int row, int r) { return ((h * (nope + value)) + row) * latent + r; };
    for (int h = 0; h < heads; ++h) {
      for (int r = 0; r < latent; ++r)
        for (int n = 0; n < nope; ++n) keys.push_back(whole[at(h, n, r)]);
      for (int v = 0; v < value; ++v)
        for (int r = 0; r < latent; ++r) values.push_back(whole[at(h, nope + v, r)]);
    }
    const GgmlType key_type = Fitting(options_.dense, nope), value_type = Fitting(options_.dense, latent);
    out_.gguf.AddTensor(name + "k_b.weight", key_type, {heads, latent, nope}, Encode(key_type, keys));
    out_.gguf.AddTensor(name + "v_b.weight", value_type, {heads, value, latent}, Encode(value_type, values));
    for (int h = 0; h < heads; ++h) {
      for (int n = 0; n < nope; ++n)
        for (int r = 0; r < latent; ++r) whole[at(h, n, r)] = keys[(h * latent + r) * nope + n];
      for (int v = 0; v < value; ++v)
        for (int r = 0; r < latent; ++r) whole[at(h, nope + v, r)] = values[(h * value + v) * latent + r];
    }
    out_.decoded.Add(linear.module + ".weight", DType::kF32, {linear.rows, latent}, BytesOf(whole));
  }

  // Experts of a layer follow one another: gate, up, down of each.
  void AddExperts(const std::vector<Linear>& linears) {
    for (size_t i = 0; i < linears.size(); ++i) {
      if (linears[i].role != Role::kExpert) continue;
      AddExpertsOfLayer(&linears[i]);
      i += 3 * static_cast<size_t>(config_.num_experts) - 1;
    }
  }

  void AddExpertsOfLayer(const Linear* linears) {
    std::vector<std::byte> blocks[3];
    GgmlType types[3];
    for (int i = 0; i < 3 * config_.num_experts; ++i) {
      const Linear& linear = linears[i];
      std::vector<float> values = Read(linear);
      types[i % 3] = Fitting(options_.experts, linear.cols);
      const std::vector<std::byte> encoded = EncodeExpert(linear, types[i % 3], values);
      out_.decoded.Add(linear.module + ".weight", DType::kF32, {linear.rows, linear.cols}, BytesOf(values));
      if (options_.layout == GgufExperts::kOneByOne) {
        const std::string stem = linear.gguf.substr(0, linear.gguf.rfind(".weight"));
        out_.gguf.AddTensor(fmt::format("{}.{}.weight", stem, i / 3), types[i % 3],
                            {linear.rows, linear.cols}, encoded);
        continue;
      }
      const int target = options_.layout == GgufExperts::kFusedGateUp && i % 3 == 1 ? 0 : i % 3;
      blocks[target].insert(blocks[target].end(), encoded.begin(), encoded.end());
    }
    if (options_.layout == GgufExperts::kOneByOne) return;
    const bool fused = options_.layout == GgufExperts::kFusedGateUp;
    for (int part = 0; part < 3; ++part) {
      if (fused && part == 1) continue;
      const Linear& linear = linears[part];
      const std::string stem = linear.gguf.substr(0, linear.gguf.rfind(".weight"));
      const int rows = fused && part == 0 ? 2 * linear.rows : linear.rows;
      out_.gguf.AddTensor(stem + (rows != linear.rows ? "_up_exps.weight" : "_exps.weight"), types[part],
                          {config_.num_experts, rows, linear.cols}, blocks[part]);
    }
  }

  void SetKeys() {
    const ModelConfig& c = config_;
    GgufWriter& w = out_.gguf;
    const bool mla = c.LayersOf(AttentionKind::kMla) > 0;
    const std::string a = mla ? "deepseek2." : "qwen3moe.";
    w.Set("general.architecture", mla ? "deepseek2" : "qwen3moe");
    const auto number = [&](const char* key, int64_t value) { w.Set(a + key, static_cast<uint32_t>(value)); };
    const auto real = [&](const char* key, double value) { w.Set(a + key, static_cast<float>(value)); };
    number("block_count", c.num_layers);
    number("context_length", c.max_position_embeddings);
    number("embedding_length", c.hidden_size);
    number("feed_forward_length", c.intermediate_size);
    number("attention.head_count", c.num_heads);
    real("attention.layer_norm_rms_epsilon", c.rms_norm_eps);
    real("rope.freq_base", c.rope.theta);
    number("expert_count", c.num_experts);
    number("expert_used_count", c.experts_per_token);
    number("expert_feed_forward_length", c.moe_intermediate_size);
    if (!mla) {
      number("attention.head_count_kv", c.num_kv_heads);
      number("attention.key_length", c.head_dim);
      number("attention.value_length", c.head_dim);
    } else {
      SetMlaKeys();
    }
    w.Set("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(std::max(c.bos_token_id, 0)));
    w.Set("tokenizer.ggml.eos_token_id",
          static_cast<uint32_t>(c.eos_token_ids.empty() ? 0 : c.eos_token_ids[0]));
  }

  void SetMlaKeys() {
    const ModelConfig& c = config_;
    GgufWriter& w = out_.gguf;
    const auto number = [&](const std::string& key, int value) {
      w.Set("deepseek2." + key, static_cast<uint32_t>(value));
    };
    const auto real = [&](const std::string& key, double value) {
      w.Set("deepseek2." + key, static_cast<float>(value));
    };
    const int key = c.qk_nope_head_dim + c.qk_rope_head_dim;
    number("attention.head_count_kv", options_.split_kv_b ? 1 : c.num_heads);
    if (c.q_lora_rank > 0) number("attention.q_lora_rank", c.q_lora_rank);
    number("attention.kv_lora_rank", c.kv_lora_rank);
    number("attention.key_length", options_.split_kv_b ? c.kv_lora_rank + c.qk_rope_head_dim : key);
    number("attention.value_length", options_.split_kv_b ? c.kv_lora_rank : c.v_head_dim);
    if (options_.split_kv_b) {
      number("attention.key_length_mla", key);
      number("attention.value_length_mla", c.v_head_dim);
    }
    number("rope.dimension_count", c.qk_rope_head_dim);
    int dense = 0;
    while (dense < c.num_layers && !c.layer_is_moe[static_cast<size_t>(dense)]) ++dense;
    number("leading_dense_block_count", dense);
    number("expert_shared_count", c.num_shared_experts);
    real("expert_weights_scale", c.routed_scaling_factor);
    w.Set("deepseek2.expert_weights_norm", c.norm_topk_prob);
    number("expert_gating_func", 2);
    number("expert_group_count", c.n_group);
    number("expert_group_used_count", c.topk_group);
    if (!c.rope.has_yarn) return;
    w.Set("deepseek2.rope.scaling.type", "yarn");
    real("rope.scaling.factor", c.rope.yarn.factor);
    number("rope.scaling.original_context_length",
           static_cast<int>(c.rope.yarn.original_max_position_embeddings));
    real("rope.scaling.yarn_log_multiplier", 0.1 * c.rope.yarn.mscale_all_dim);
    real("rope.scaling.yarn_beta_fast", c.rope.yarn.beta_fast);
    real("rope.scaling.yarn_beta_slow", c.rope.yarn.beta_slow);
  }

  const Checkpoint& source_;
  const ModelConfig& config_;
  const GgufOptions& options_;
  GgufConversion out_;
};

}  // namespace

GgufConversion ConvertToGguf(const Checkpoint& source, const ModelConfig& config,
                             const GgufOptions& options) {
  return Converter(source, config, options).Convert();
}

SafetensorsWriter RandomModel(const ModelConfig& config, uint32_t seed) {
  SafetensorsWriter writer(seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const Parts parts = PartsOf(config);
  for (const Linear& linear : parts.linears) {
    writer.AddLinear(linear.module, MatrixFormat::kBF16, linear.rows, linear.cols,
                     1.0f / std::sqrt(static_cast<float>(linear.cols)));
  }
  for (const Norm& norm : parts.norms) {
    std::vector<float> values(static_cast<size_t>(norm.size));
    for (float& value : values) value = norm.is_bias ? 0.1f * normal(random) : 1.0f + 0.1f * normal(random);
    writer.Add(norm.tensor, DType::kF32, {norm.size}, BytesOf(values));
  }
  return writer;
}

}  // namespace numoe
