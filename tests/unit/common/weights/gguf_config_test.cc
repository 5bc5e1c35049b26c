// From metadata to ModelConfig: golden configurations are reproduced, missing keys are filled in, and every
// wrong value names its key.
#include "common/weights/gguf_config.h"

#include <cmath>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_conversion.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kGolden = "tests/golden/data";

GgufWriter Converted(const std::string& name, const GgufOptions& options = {}) {
  const auto config = ReadModelConfig(kGolden / name);
  const auto checkpoint = Checkpoint::Open(kGolden / name);
  EXPECT_TRUE(config.ok() && checkpoint.ok());
  return ConvertToGguf(**checkpoint, *config, options).gguf;
}

absl::StatusOr<ModelConfig> ConfigOf(const GgufWriter& writer) {
  const std::vector<std::byte> bytes = writer.Bytes();
  const auto file = ParseGguf(bytes, "m.gguf");
  EXPECT_TRUE(file.ok()) << file.status();
  return ReadGgufConfig(*file, "m.gguf");
}

class SameConfigTest : public ::testing::TestWithParam<std::pair<const char*, bool>> {};

TEST_P(SameConfigTest, AsTheCheckpointsOwn) {
  const auto& [name, split] = GetParam();
  const ModelConfig own = *ReadModelConfig(kGolden / name);
  const auto read = ConfigOf(Converted(name, {.split_kv_b = split}));
  ASSERT_TRUE(read.ok()) << read.status();
  const ModelConfig& c = *read;
  EXPECT_EQ(c.tensor_prefix, "");
  EXPECT_EQ(c.hidden_size, own.hidden_size);
  EXPECT_EQ(c.num_layers, own.num_layers);
  EXPECT_EQ(c.vocab_size, own.vocab_size);
  EXPECT_EQ(c.max_position_embeddings, own.max_position_embeddings);
  EXPECT_EQ(static_cast<float>(c.rms_norm_eps), static_cast<float>(own.rms_norm_eps));
  EXPECT_EQ(c.tie_word_embeddings, own.tie_word_embeddings);
  EXPECT_EQ(c.layer_attention, own.layer_attention);
  EXPECT_EQ(c.num_heads, own.num_heads);
  EXPECT_EQ(c.num_kv_heads, own.num_kv_heads);
  EXPECT_EQ(c.head_dim, own.head_dim);
  EXPECT_EQ(c.q_lora_rank, own.q_lora_rank);
  EXPECT_EQ(c.kv_lora_rank, own.kv_lora_rank);
  EXPECT_EQ(c.qk_nope_head_dim, own.qk_nope_head_dim);
  EXPECT_EQ(c.qk_rope_head_dim, own.qk_rope_head_dim);
  EXPECT_EQ(c.v_head_dim, own.v_head_dim);
  EXPECT_EQ(c.rope.layout, own.rope.layout);
  EXPECT_EQ(c.rope.theta, own.rope.theta);
  EXPECT_EQ(c.rope.dim, own.rope.dim);
  EXPECT_EQ(c.rope.has_yarn, own.rope.has_yarn);
  EXPECT_EQ(c.rope.yarn.factor, own.rope.yarn.factor);
  EXPECT_EQ(c.rope.yarn.beta_fast, own.rope.yarn.beta_fast);
  EXPECT_EQ(c.rope.yarn.beta_slow, own.rope.yarn.beta_slow);
  EXPECT_EQ(c.rope.yarn.original_max_position_embeddings, own.rope.yarn.original_max_position_embeddings);
  if (own.rope.has_yarn) {
    EXPECT_NEAR(c.rope.yarn.mscale_all_dim, own.rope.yarn.mscale_all_dim, 1e-6);
    EXPECT_EQ(c.rope.yarn.mscale, c.rope.yarn.mscale_all_dim) << "the rotation's multiplier is 1";
  }
  EXPECT_EQ(c.intermediate_size, own.intermediate_size);
  EXPECT_EQ(c.moe_intermediate_size, own.moe_intermediate_size);
  EXPECT_EQ(c.num_experts, own.num_experts);
  EXPECT_EQ(c.experts_per_token, own.experts_per_token);
  EXPECT_EQ(c.num_shared_experts, own.num_shared_experts);
  EXPECT_EQ(c.layer_is_moe, own.layer_is_moe);
  EXPECT_EQ(c.scoring, own.scoring);
  EXPECT_EQ(c.n_group, own.n_group);
  EXPECT_EQ(c.topk_group, own.topk_group);
  EXPECT_EQ(c.norm_topk_prob, own.norm_topk_prob);
  EXPECT_NEAR(c.routed_scaling_factor, own.routed_scaling_factor, 1e-6);
  EXPECT_EQ(c.bos_token_id, own.bos_token_id);
}
INSTANTIATE_TEST_SUITE_P(All, SameConfigTest,
                         ::testing::Values(std::pair{"deepseek-v3-bf16", true},
                                           std::pair{"deepseek-v3-bf16", false},
                                           std::pair{"kimi-k2-thinking-int4", true},
                                           std::pair{"kimi-k25-int4", true},
                                           std::pair{"qwen3-moe-bf16", true}, std::pair{"tiny-chat", true}));

class GgufConfigTest : public ::testing::Test {
 protected:
  static ModelConfig With(GgufWriter writer, const std::function<void(GgufWriter&)>& change) {
    change(writer);
    const auto config = ConfigOf(writer);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? *config : ModelConfig();
  }
  static std::string Error(GgufWriter writer, const std::function<void(GgufWriter&)>& change) {
    change(writer);
    const auto config = ConfigOf(writer);
    return config.ok() ? "read" : std::string(config.status().message());
  }
  const GgufWriter kimi_ = Converted("tiny-chat");
  const GgufWriter qwen_ = Converted("qwen3-moe-bf16");
};

TEST_F(GgufConfigTest, BetasOfOldKimiFiles) {
  const auto without_betas = [](GgufWriter& w) {
    w.Remove("deepseek2.rope.scaling.yarn_beta_fast");
    w.Remove("deepseek2.rope.scaling.yarn_beta_slow");
  };
  const ModelConfig deepseek = With(kimi_, without_betas);
  EXPECT_EQ(deepseek.model_type, "deepseek_v3");
  EXPECT_EQ(deepseek.rope.yarn.beta_fast, 32);
  const ModelConfig kimi = With(kimi_, [&](GgufWriter& w) {
    without_betas(w);
    w.Set("tokenizer.ggml.pre", "kimi-k2");
  });
  EXPECT_EQ(kimi.model_type, "kimi_k2");
  EXPECT_EQ(kimi.rope.yarn.beta_fast, 1);
  EXPECT_EQ(kimi.rope.yarn.beta_slow, 1);
}

TEST_F(GgufConfigTest, GroupsOfOldDeepSeekFiles) {
  const auto without_groups = [](GgufWriter& w) {
    w.Remove("deepseek2.expert_group_count");
    w.Remove("deepseek2.expert_group_used_count");
  };
  EXPECT_EQ(With(kimi_, without_groups).n_group, 1);
  const ModelConfig v3 = With(kimi_, [&](GgufWriter& w) {
    without_groups(w);
    w.Set("deepseek2.expert_count", 256u);
    w.RemoveTensor("token_embd.weight");
    w.AddTensor("token_embd.weight", GgmlType::kBF16, {129280, 1}, std::vector<std::byte>(129280 * 2));
  });
  EXPECT_EQ(v3.n_group, 8);
  EXPECT_EQ(v3.topk_group, 4);
}

TEST_F(GgufConfigTest, LayersThatPredictFurtherTokensAreLeftOut) {
  const auto predicting = [](GgufWriter& w) { w.Set("deepseek2.nextn_predict_layers", 1u); };
  EXPECT_EQ(With(kimi_, predicting).num_layers, 3) << "their tensors were dropped";
  const ModelConfig kept = With(kimi_, [&](GgufWriter& w) {
    predicting(w);
    w.Set("deepseek2.block_count", 4u);
    w.AddTensor("blk.3.nextn.eh_proj.weight", GgmlType::kF32, {1}, std::vector<std::byte>(4));
  });
  EXPECT_EQ(kept.num_layers, 3);
  EXPECT_EQ(kept.layer_is_moe.size(), 3u);
}

TEST_F(GgufConfigTest, StopTokensByKeyAndByName) {
  const ModelConfig config = With(kimi_, [](GgufWriter& w) {
    w.Set("tokenizer.ggml.tokens",
          std::vector<std::string>{"a", "[EOS]", "<|im_end|>", "<|im_end|>", "b", "[EOT]"});
    w.Set("tokenizer.ggml.token_type", std::vector<int32_t>{1, 3, 3, 1, 1, 3});
    w.Set("tokenizer.ggml.eos_token_id", 1u);
    w.Set("tokenizer.ggml.eot_token_id", 4u);
    w.Set("tokenizer.ggml.bos_token_id", 7u);
  });
  EXPECT_THAT(config.eos_token_ids, ElementsAre(1, 4, 2, 5)) << "an ordinary token's text stops nothing";
  EXPECT_EQ(config.bos_token_id, 7);
}

TEST_F(GgufConfigTest, QwensOwnDefaults) {
  const ModelConfig plain = With(qwen_, [](GgufWriter& w) { w.Remove("qwen3moe.rope.freq_base"); });
  EXPECT_EQ(plain.rope.theta, 10000);
  EXPECT_TRUE(plain.norm_topk_prob);
  EXPECT_FALSE(plain.rope.has_yarn);
  EXPECT_FALSE(
      With(qwen_, [](GgufWriter& w) { w.Set("qwen3moe.expert_weights_norm", false); }).norm_topk_prob);
  const ModelConfig yarn = With(qwen_, [](GgufWriter& w) {
    w.Set("qwen3moe.rope.scaling.type", "yarn");
    w.Set("qwen3moe.rope.scaling.factor", 4.0f);
    w.Set("qwen3moe.rope.scaling.original_context_length", 32768u);
  });
  EXPECT_EQ(yarn.rope.yarn.mscale, 1.0) << "scales the rotation, as Hugging Face's YaRN does";
  EXPECT_EQ(yarn.rope.yarn.mscale_all_dim, 0.0);
  EXPECT_TRUE(With(qwen_, [](GgufWriter& w) { w.RemoveTensor("output.weight"); }).tie_word_embeddings);
}

TEST_F(GgufConfigTest, WrongValuesNameTheirKey) {
  const auto set = [](const char* key, auto value) { return [=](GgufWriter& w) { w.Set(key, value); }; };
  const auto without = [](const char* key) { return [=](GgufWriter& w) { w.Remove(key); }; };
  EXPECT_EQ(Error(kimi_, set("general.architecture", "llama")),
            "m.gguf: key general.architecture: is llama, expected deepseek2 or qwen3moe");
  EXPECT_THAT(Error(kimi_, without("general.architecture")),
              HasSubstr("is missing, expected deepseek2 or qwen3moe"));
  EXPECT_EQ(Error(kimi_, without("deepseek2.block_count")),
            "m.gguf: deepseek2.block_count is missing, expected an integer from 1 to 1024");
  EXPECT_THAT(Error(kimi_, set("deepseek2.block_count", 0u)), HasSubstr("deepseek2.block_count is 0"));
  EXPECT_THAT(Error(kimi_, set("deepseek2.attention.head_count", std::vector<int32_t>{4, 4})),
              HasSubstr("deepseek2.attention.head_count is [\"an array of 2\"], expected an integer"));
  EXPECT_THAT(Error(kimi_, set("deepseek2.expert_gating_func", 1u)),
              HasSubstr("deepseek2.expert_gating_func is 1, expected 2, the only kind"));
  EXPECT_THAT(Error(kimi_, without("deepseek2.expert_gating_func")),
              HasSubstr("deepseek2.expert_gating_func is missing, expected 2"));
  EXPECT_THAT(Error(kimi_, without("deepseek2.expert_weights_norm")),
              HasSubstr("deepseek2.expert_weights_norm is missing, expected true or false"));
  EXPECT_THAT(Error(kimi_, set("deepseek2.attention.key_length_mla", 32u)),
              HasSubstr("deepseek2.attention.key_length_mla is 32, expected more than the 32 channels"));
  EXPECT_THAT(Error(kimi_, set("deepseek2.rope.dimension_count", 5u)), HasSubstr("expected an even number"));
  EXPECT_THAT(Error(kimi_, set("deepseek2.rope.scaling.type", "longrope")),
              HasSubstr("expected \"none\" or \"yarn\""));
  EXPECT_THAT(Error(kimi_, set("deepseek2.rope.scaling.attn_factor", 2.0f)),
              HasSubstr("rope.scaling.attn_factor is 2"));
  EXPECT_THAT(Error(kimi_, set("deepseek2.rope.freq_base", std::nanf(""))), HasSubstr("rope.freq_base is"));
  EXPECT_THAT(Error(kimi_, set("deepseek2.expert_group_count", 5u)), HasSubstr("expert_group_count is 5"));
  EXPECT_THAT(Error(kimi_, set("tokenizer.ggml.eos_token_id", 768u)),
              HasSubstr("tokenizer.ggml.eos_token_id is 768, expected token ids from 0 to 767"));
  EXPECT_THAT(Error(kimi_, [](GgufWriter& w) { w.RemoveTensor("token_embd.weight"); }),
              HasSubstr("tensor token_embd.weight: is missing, expected [vocabulary,"));
  EXPECT_THAT(Error(qwen_, set("qwen3moe.expert_shared_count", 1u)), HasSubstr("expert_shared_count is 1"));
  EXPECT_THAT(Error(qwen_, set("qwen3moe.attention.head_count_kv", 3u)),
              HasSubstr("expected a divisor of 4 heads"));
  EXPECT_THAT(Error(qwen_, set("qwen3moe.attention.value_length", 16u)),
              HasSubstr("attention.value_length is 16"));
}

TEST_F(GgufConfigTest, SamplingDefaults) {
  GgufWriter writer;
  writer.Set("general.sampling.temp", 0.6f);
  writer.Set("general.sampling.top_k", 20u);
  writer.Set("general.sampling.top_p", 0.95f);
  const auto read = [&] {
    const std::vector<std::byte> bytes = writer.Bytes();
    return ReadGgufGenerationDefaults(*ParseGguf(bytes, "m"), "m");
  };
  EXPECT_NEAR(read()->temperature, 0.6, 1e-6);
  EXPECT_EQ(read()->top_k, 20);
  EXPECT_NEAR(read()->top_p, 0.95, 1e-6);
  EXPECT_EQ(read()->min_p, 0.0);
  writer.Set("general.sampling.top_p", 1.5f);
  EXPECT_THAT(std::string(read().status().message()), HasSubstr("general.sampling.top_p is 1.5"));
}

}  // namespace
}  // namespace numoe
