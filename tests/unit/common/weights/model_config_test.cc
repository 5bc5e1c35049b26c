// config.json of every family in its published spellings, and each field wrong once: the error is one line
// with the file, the field, what was found and what was expected.
#include "common/weights/model_config.h"

#include <fstream>

#include "common/json/json_reader.h"
#include "common/weights/mapped_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kPublished = "../shared/data/kimi";

// Kimi-K2-Instruct as published.
json KimiK2() {
  return json::parse(R"({
    "model_type": "kimi_k2", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 64,
    "num_key_value_heads": 64, "first_k_dense_replace": 1, "moe_layer_freq": 1, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 384, "num_experts_per_tok": 8, "n_shared_experts": 1,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "n_group": 1, "topk_group": 1, "routed_scaling_factor": 2.827, "scoring_func": "sigmoid",
    "topk_method": "noaux_tc", "norm_topk_prob": true, "rms_norm_eps": 1e-06, "rope_theta": 50000.0,
    "rope_scaling": {"type": "yarn", "factor": 32.0, "beta_fast": 1.0, "beta_slow": 1.0, "mscale": 1.0,
                     "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096},
    "max_position_embeddings": 131072, "vocab_size": 163840, "bos_token_id": 163584, "eos_token_id": 163585,
    "tie_word_embeddings": false, "attention_bias": false, "hidden_act": "silu", "torch_dtype": "bfloat16",
    "num_nextn_predict_layers": 0,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                            "weight_block_size": [128, 128]}})");
}

// Qwen3-235B-A22B as published.
json Qwen3() {
  return json::parse(R"({
    "model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 94, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
    "moe_intermediate_size": 1536, "intermediate_size": 12288, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "norm_topk_prob": true, "rope_theta": 1000000.0, "rope_scaling": null, "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-06, "vocab_size": 151936, "tie_word_embeddings": false, "attention_bias": false,
    "use_sliding_window": false, "sliding_window": null, "hidden_act": "silu", "bos_token_id": 151643,
    "eos_token_id": 151645})");
}

json Int4Quantization() {
  return json::parse(R"({
    "quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
    "kv_cache_scheme": null, "ignore": ["lm_head"],
    "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": null, "output_activations": null,
      "weights": {"num_bits": 4, "type": "int", "symmetric": true, "strategy": "group", "group_size": 32,
                  "dynamic": false, "actorder": null}}}})");
}

ModelConfig Parsed(const json& config) {
  const absl::StatusOr<ModelConfig> parsed = ParseModelConfig(config.dump(), "config.json");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : ModelConfig{};
}

std::string ErrorOfText(const std::string& text) {
  const absl::StatusOr<ModelConfig> parsed = ParseModelConfig(text, "config.json");
  if (parsed.ok()) return "parsed";
  EXPECT_TRUE(absl::IsInvalidArgument(parsed.status()));
  return std::string(parsed.status().message());
}

// Returns the message for `config` with the value at `pointer` replaced; "(remove)" removes it.
std::string ErrorWith(json config, const char* pointer, const json& value) {
  const json::json_pointer at(pointer);
  if (value == "(remove)") {
    config[at.parent_pointer()].erase(at.back());
  } else {
    config[at] = value;
  }
  return ErrorOfText(config.dump());
}

TEST(ModelConfigTest, KimiK2) {
  const ModelConfig c = Parsed(KimiK2());
  EXPECT_EQ(c.model_type, "kimi_k2");
  EXPECT_EQ(c.tensor_prefix, "");
  EXPECT_EQ(c.LayersOf(AttentionKind::kMla), c.num_layers);
  EXPECT_EQ(c.scoring, GateScoring::kSigmoidNoAuxTc);
  EXPECT_EQ(c.rope.layout, RopeLayout::kInterleaved);
  EXPECT_EQ(c.rope.dim, 64);
  EXPECT_EQ(c.rope.theta, 50000.0);
  ASSERT_TRUE(c.rope.has_yarn);
  EXPECT_EQ(c.rope.yarn.factor, 32.0);
  EXPECT_EQ(c.rope.yarn.beta_fast, 1.0);
  EXPECT_EQ(c.rope.yarn.original_max_position_embeddings, 4096);
  EXPECT_EQ(c.num_experts, 384);
  EXPECT_EQ(c.routed_scaling_factor, 2.827);
  EXPECT_EQ(c.fp8_block_rows, 128);
  EXPECT_FALSE(c.layer_is_moe[0]);
  EXPECT_EQ(std::count(c.layer_is_moe.begin(), c.layer_is_moe.end(), true), 60);
  EXPECT_EQ(c.bos_token_id, 163584);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(163585));
}

TEST(ModelConfigTest, DeepSeekV3Differs) {
  json config = KimiK2();
  config.update(
      json::parse(R"({"model_type": "deepseek_v3", "num_attention_heads": 128, "n_routed_experts": 256,
      "n_group": 8, "topk_group": 4, "first_k_dense_replace": 3, "num_nextn_predict_layers": 1, "eos_token_id": 1})"));
  const ModelConfig c = Parsed(config);
  EXPECT_EQ(c.n_group, 8);
  EXPECT_EQ(c.topk_group, 4);
  EXPECT_EQ(c.num_layers, 61) << "the extra prediction layer is not a decoder layer";
  EXPECT_FALSE(c.layer_is_moe[2]);
  EXPECT_TRUE(c.layer_is_moe[3]);
}

TEST(ModelConfigTest, MoeLayersFollowTheirFrequency) {
  json config = KimiK2();
  config.update(json::parse(R"({"num_hidden_layers": 7, "first_k_dense_replace": 2, "moe_layer_freq": 2})"));
  EXPECT_THAT(Parsed(config).layer_is_moe, ElementsAre(false, false, true, false, true, false, true));
  config = Qwen3();
  config.update(json::parse(R"({"num_hidden_layers": 6, "decoder_sparse_step": 2, "mlp_only_layers": [3]})"));
  EXPECT_THAT(Parsed(config).layer_is_moe, ElementsAre(false, true, false, false, false, true));
}

TEST(ModelConfigTest, KimiK25ReadsItsTextPart) {
  json text = KimiK2();
  text["quantization_config"] = Int4Quantization();
  const ModelConfig c = Parsed({{"model_type", "kimi_k25"}, {"text_config", text}, {"eos_token_id", 163586}});
  EXPECT_EQ(c.model_type, "kimi_k25");
  EXPECT_EQ(c.tensor_prefix, "language_model.");
  EXPECT_EQ(c.num_layers, 61);
  EXPECT_EQ(c.int4_group_size, 32);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(163585, 163586));
}

TEST(ModelConfigTest, Qwen3) {
  const ModelConfig c = Parsed(Qwen3());
  EXPECT_EQ(c.LayersOf(AttentionKind::kGqa), c.num_layers);
  EXPECT_EQ(c.scoring, GateScoring::kSoftmax);
  EXPECT_EQ(c.rope.layout, RopeLayout::kHalf);
  EXPECT_EQ(c.rope.dim, 128);
  EXPECT_FALSE(c.rope.has_yarn);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.num_kv_heads, 4);
  EXPECT_EQ(c.num_shared_experts, 0);
  EXPECT_EQ(c.routed_scaling_factor, 1.0);
  EXPECT_EQ(std::count(c.layer_is_moe.begin(), c.layer_is_moe.end(), true), 94);
}

TEST(ModelConfigTest, NewSpellings) {
  json config = Qwen3();
  for (const char* old : {"num_experts", "rope_theta", "rope_scaling", "head_dim"}) config.erase(old);
  config["num_local_experts"] = 60;
  config["hidden_size"] = 8192;  // head_dim is then hidden_size / heads
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e6}};
  config["layer_types"] = std::vector<std::string>(94, "full_attention");
  const ModelConfig c = Parsed(config);
  EXPECT_EQ(c.num_experts, 60);
  EXPECT_EQ(c.rope.theta, 5e6);
  EXPECT_EQ(c.head_dim, 128);
  config["rope_parameters"] = {
      {"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 32768}};
  EXPECT_EQ(Parsed(config).rope.yarn.factor, 4.0);
}

TEST(ModelConfigTest, PlainQueryProjection) {
  EXPECT_EQ(ErrorWith(KimiK2(), "/q_lora_rank", nullptr), "parsed");
  json config = KimiK2();
  config["q_lora_rank"] = nullptr;
  EXPECT_EQ(Parsed(config).q_lora_rank, 0);
}

TEST(ModelConfigTest, UnknownArchitecture) {
  EXPECT_EQ(
      ErrorWith(KimiK2(), "/model_type", "llama"),
      "config.json: model_type is \"llama\", expected one of kimi_k2, deepseek_v3, kimi_k25, qwen3_moe");
  EXPECT_EQ(ErrorWith(KimiK2(), "/model_type", "(remove)"),
            "config.json: model_type is missing, expected one of kimi_k2, deepseek_v3, kimi_k25, qwen3_moe");
  EXPECT_EQ(ErrorOfText(R"({"model_type": "kimi_k25"})"),
            "config.json: text_config is missing, expected the text model's configuration");
  EXPECT_EQ(ErrorOfText(R"({"model_type": "kimi_k25", "text_config": {"model_type": "qwen3_moe"}})"),
            "config.json: text_config.model_type is \"qwen3_moe\", expected kimi_k2 or deepseek_v3");
}

TEST(ModelConfigTest, TextThatIsNotAConfiguration) {
  EXPECT_THAT(ErrorOfText(""), HasSubstr("config.json: not valid JSON at byte 1"));
  EXPECT_EQ(ErrorOfText("[]"), "config.json: [], expected a JSON object");
  EXPECT_EQ(ErrorOfText(R"({"a": 1, "a": 2})"), "config.json: key \"a\" occurs twice, expected once");
}

struct BadField {
  const char* pointer;
  const char* value;     // JSON
  const char* expected;  // the message without "config.json: "
};

class BadKimiFieldTest : public ::testing::TestWithParam<BadField> {};

TEST_P(BadKimiFieldTest, IsNamed) {
  EXPECT_EQ(ErrorWith(KimiK2(), GetParam().pointer, json::parse(GetParam().value)),
            std::string("config.json: ") + GetParam().expected);
}

constexpr BadField kBadKimiFields[] = {
    {"/hidden_size", "0", "hidden_size is 0, expected an integer from 1 to 65536"},
    {"/hidden_size", "65537", "hidden_size is 65537, expected an integer from 1 to 65536"},
    {"/hidden_size", "\"7168\"", "hidden_size is \"7168\", expected an integer from 1 to 65536"},
    {"/hidden_size", "\"(remove)\"", "hidden_size is missing, expected an integer from 1 to 65536"},
    {"/num_hidden_layers", "1025", "num_hidden_layers is 1025, expected an integer from 1 to 1024"},
    {"/num_hidden_layers", "6.5", "num_hidden_layers is 6.5, expected an integer from 1 to 1024"},
    {"/vocab_size", "18446744073709551615",
     "vocab_size is 18446744073709551615, expected an integer from 1 to 16777216"},
    {"/max_position_embeddings", "-1",
     "max_position_embeddings is -1, expected an integer from 1 to 2147483648"},
    {"/rms_norm_eps", "0", "rms_norm_eps is 0, expected a number from 1e-12 to 1"},
    {"/tie_word_embeddings", "0", "tie_word_embeddings is 0, expected true or false"},
    {"/num_attention_heads", "4097", "num_attention_heads is 4097, expected an integer from 1 to 4096"},
    {"/n_routed_experts", "4097", "n_routed_experts is 4097, expected an integer from 1 to 4096"},
    {"/num_experts_per_tok", "65", "num_experts_per_tok is 65, expected an integer from 1 to 64"},
    {"/norm_topk_prob", "null", "norm_topk_prob is missing, expected true or false"},
    {"/hidden_act", "\"gelu\"",
     "hidden_act is \"gelu\", expected \"silu\", the only kind this engine computes"},
    {"/attention_bias", "true", "attention_bias is true, expected false, the only kind this engine computes"},
    {"/kv_lora_rank", "0", "kv_lora_rank is 0, expected an integer from 1 to 65536"},
    {"/qk_rope_head_dim", "63", "qk_rope_head_dim is 63, expected an even number"},
    {"/v_head_dim", "5000", "v_head_dim is 5000, expected an integer from 1 to 4096"},
    {"/rope_interleave", "false",
     "rope_interleave is false, expected true, the only kind this engine computes"},
    {"/scoring_func", "\"softmax\"",
     "scoring_func is \"softmax\", expected \"sigmoid\", the only kind this engine computes"},
    {"/topk_method", "\"greedy\"",
     "topk_method is \"greedy\", expected \"noaux_tc\", the only kind this engine computes"},
    {"/n_group", "5",
     "n_group is 5 with topk_group 1, expected a divisor of 384 experts that leaves 8 to choose from"},
    {"/n_group", "128",
     "n_group is 128 with topk_group 1, expected a divisor of 384 experts that leaves 8 to choose from"},
    {"/topk_group", "2", "topk_group is 2, expected an integer from 1 to 1"},
    {"/routed_scaling_factor", "null",
     "routed_scaling_factor is missing, expected a number from 1e-06 to 1000000"},
    {"/first_k_dense_replace", "null",
     "first_k_dense_replace is missing, expected an integer from 0 to 1024"},
    {"/moe_layer_freq", "0", "moe_layer_freq is 0, expected an integer from 1 to 1024"},
    {"/intermediate_size", "null",
     "intermediate_size is missing, expected the width of the dense layers' MLP"},
    {"/rope_theta", "1", "rope_theta is 1, expected a number from 1.1 to 1000000000000"},
    {"/rope_scaling", "8", "rope_scaling is 8, expected an object"},
    {"/rope_scaling/type", "\"linear\"",
     "rope_scaling.type is \"linear\", expected \"default\" or \"yarn\", the only kinds this engine "
     "computes"},
    {"/rope_scaling/factor", "\"(remove)\"",
     "rope_scaling.factor is missing, expected a number from 1 to 1000000"},
    {"/rope_scaling/factor", "0.5", "rope_scaling.factor is 0.5, expected a number from 1 to 1000000"},
    {"/rope_scaling/original_max_position_embeddings", "0",
     "rope_scaling.original_max_position_embeddings is 0, expected an integer from 1 to 2147483648"},
    {"/rope_scaling/mrope_section", "[16, 24, 24]",
     "rope_scaling.mrope_section is [16,24,24], expected null, the only kind this engine computes"},
    {"/eos_token_id", "163840",
     "eos_token_id is 163840, expected token ids from 0 to 163839, below vocab_size"},
    {"/eos_token_id", "[1, \"x\"]",
     "eos_token_id is [1,\"x\"], expected token ids from 0 to 163839, below vocab_size"},
    {"/bos_token_id", "-5", "bos_token_id is -5, expected token ids from 0 to 163839, below vocab_size"},
    {"/quantization_config", "[]", "quantization_config is [], expected an object"},
    {"/quantization_config/quant_method", "\"awq\"",
     "quantization_config.quant_method is \"awq\", expected \"fp8\" or \"compressed-tensors\""},
    {"/quantization_config/fmt", "\"e5m2\"",
     "quantization_config.fmt is \"e5m2\", expected \"e4m3\", the only kind this engine computes"},
    {"/quantization_config/weight_block_size", "null",
     "quantization_config.weight_block_size is missing, expected [rows, cols] of a block, such as [128, "
     "128]"},
    {"/quantization_config/weight_block_size", "[128, 0]",
     "quantization_config.weight_block_size is [128,0], expected [rows, cols] of a block, such as [128, "
     "128]"},
};
INSTANTIATE_TEST_SUITE_P(Fields, BadKimiFieldTest, ::testing::ValuesIn(kBadKimiFields));

class BadQwenFieldTest : public ::testing::TestWithParam<BadField> {};

TEST_P(BadQwenFieldTest, IsNamed) {
  EXPECT_EQ(ErrorWith(Qwen3(), GetParam().pointer, json::parse(GetParam().value)),
            std::string("config.json: ") + GetParam().expected);
}

constexpr BadField kBadQwenFields[] = {
    {"/num_key_value_heads", "5", "num_key_value_heads is 5, expected a divisor of 64 heads"},
    {"/num_key_value_heads", "65", "num_key_value_heads is 65, expected an integer from 1 to 64"},
    {"/head_dim", "127", "head_dim is 127, expected an even number from 2 to 4096"},
    {"/num_experts", "0", "num_experts is 0, expected an integer from 1 to 4096"},
    {"/use_sliding_window", "true",
     "use_sliding_window is true, expected false, the only kind this engine computes"},
    {"/layer_types", "[\"full_attention\", \"sliding_attention\"]",
     "layer_types holds \"sliding_attention\", expected \"full_attention\" only"},
    {"/mlp_only_layers", "[94]", "mlp_only_layers is [94], expected a list of layers from 0 to 93"},
    {"/mlp_only_layers", "3", "mlp_only_layers is 3, expected a list of layers from 0 to 93"},
    {"/decoder_sparse_step", "0", "decoder_sparse_step is 0, expected an integer from 1 to 1024"},
    {"/rope_scaling", "{\"rope_type\": \"mrope\"}",
     "rope_scaling.rope_type is \"mrope\", expected \"default\" or \"yarn\", the only kinds this engine "
     "computes"},
};
INSTANTIATE_TEST_SUITE_P(Fields, BadQwenFieldTest, ::testing::ValuesIn(kBadQwenFields));

TEST(ModelConfigTest, HeadDimFromTheHiddenSizeMustBeOneToo) {
  json config = Qwen3();
  config.erase("head_dim");
  EXPECT_EQ(ErrorWith(config, "/hidden_size", 63),
            "config.json: head_dim is 0, expected an even number from 2 to 4096");
}

class BadInt4FieldTest : public ::testing::TestWithParam<BadField> {};

TEST_P(BadInt4FieldTest, IsNamed) {
  json config = KimiK2();
  config["quantization_config"] = Int4Quantization();
  EXPECT_EQ(ErrorOfText(config.dump()), "parsed");
  EXPECT_EQ(ErrorWith(config, (std::string("/quantization_config") + GetParam().pointer).c_str(),
                      json::parse(GetParam().value)),
            std::string("config.json: quantization_config.") + GetParam().expected);
}

constexpr BadField kBadInt4Fields[] = {
    {"/config_groups/group_0/weights/num_bits", "8",
     "config_groups.group_0.weights.num_bits is 8, expected 4, the only kind this engine computes"},
    {"/config_groups/group_0/weights/num_bits", "\"(remove)\"",
     "config_groups.group_0.weights.num_bits is missing, expected 4"},
    {"/config_groups/group_0/weights/group_size", "128",
     "config_groups.group_0.weights.group_size is 128, expected 32, the only kind this engine computes"},
    {"/config_groups/group_0/weights/symmetric", "false",
     "config_groups.group_0.weights.symmetric is false, expected true, the only kind this engine computes"},
    {"/config_groups/group_0/weights/actorder", "\"group\"",
     "config_groups.group_0.weights.actorder is \"group\", expected null, the only kind this engine "
     "computes"},
    {"/config_groups/group_0/weights/type", "\"float\"",
     "config_groups.group_0.weights.type is \"float\", expected \"int\", the only kind this engine computes"},
    {"/config_groups/group_0/weights/strategy", "\"channel\"",
     "config_groups.group_0.weights.strategy is \"channel\", expected \"group\", the only kind this engine "
     "computes"},
    {"/config_groups/group_0/input_activations", "{\"num_bits\":8}",
     "config_groups.group_0.input_activations is {\"num_bits\":8}, expected null, the only kind this engine "
     "computes"},
    {"/config_groups/group_0/weights", "null",
     "config_groups.group_0.weights is missing, expected an object with num_bits and group_size"},
    {"/config_groups", "{}", "config_groups is {}, expected a group with its weights"},
    {"/config_groups", "{\"g\":4}", "config_groups holds 4, expected objects"},
    {"/format", "\"marlin-24\"",
     "format is \"marlin-24\", expected \"pack-quantized\", the only kind this engine computes"},
    {"/quantization_status", "\"frozen\"",
     "quantization_status is \"frozen\", expected \"compressed\", the only kind this engine computes"},
};
INSTANTIATE_TEST_SUITE_P(Fields, BadInt4FieldTest, ::testing::ValuesIn(kBadInt4Fields));

class ModelFolderTest : public ::testing::Test {
 protected:
  void Write(const char* file, const std::string& text) { std::ofstream(folder_.path() / file) << text; }
  std::string Path(const char* file) const { return (folder_.path() / file).string(); }

  TemporaryFolder folder_;
};

TEST_F(ModelFolderTest, StopTokensAreTheUnionOfBothFiles) {
  Write("config.json", KimiK2().dump());
  EXPECT_THAT(ReadModelConfig(folder_.path())->eos_token_ids, ElementsAre(163585));
  Write("generation_config.json", R"({"eos_token_id": 163586})");
  EXPECT_THAT(ReadModelConfig(folder_.path())->eos_token_ids, ElementsAre(163585, 163586));
  Write("generation_config.json", R"({"eos_token_id": [163585, 7]})");
  EXPECT_THAT(ReadModelConfig(folder_.path())->eos_token_ids, ElementsAre(163585, 7));
  Write("generation_config.json", R"({"eos_token_id": "</s>"})");
  EXPECT_EQ(ReadModelConfig(folder_.path()).status().message(),
            Path("generation_config.json") +
                ": eos_token_id is \"</s>\", expected token ids from 0 to 163839, below vocab_size");
}

TEST_F(ModelFolderTest, MissingConfigNamesItsPath) {
  const absl::Status status = ReadModelConfig(folder_.path()).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), Path("config.json") + ": cannot open: No such file or directory");
}

TEST_F(ModelFolderTest, GenerationDefaults) {
  EXPECT_EQ(ReadGenerationDefaults(folder_.path())->temperature, 1.0);
  Write("generation_config.json",
        R"({"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": null, "repetition_penalty": 1.05})");
  const absl::StatusOr<GenerationDefaults> read = ReadGenerationDefaults(folder_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->temperature, 0.6);
  EXPECT_EQ(read->top_p, 0.95);
  EXPECT_EQ(read->top_k, 20);
  EXPECT_EQ(read->min_p, 0.0);
  EXPECT_EQ(read->repetition_penalty, 1.05);
  Write("generation_config.json", R"({"top_k": -1})");
  EXPECT_EQ(ReadGenerationDefaults(folder_.path())->top_k, 0) << "-1 is another spelling of off";
  Write("generation_config.json", R"({"top_p": 1.5})");
  EXPECT_EQ(ReadGenerationDefaults(folder_.path()).status().message(),
            Path("generation_config.json") + ": top_p is 1.5, expected a number from 0 to 1");
}

TEST(PublishedModelConfigTest, KimiK25) {
  if (!std::filesystem::exists(kPublished / "config.json")) {
    GTEST_SKIP() << "the published config.json is not here: " << kPublished;
  }
  const absl::StatusOr<ModelConfig> c = ReadModelConfig(kPublished);
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->model_type, "kimi_k25");
  EXPECT_EQ(c->hidden_size, 7168);
  EXPECT_EQ(c->num_experts, 384);
  EXPECT_EQ(c->rms_norm_eps, 1e-5);
  EXPECT_EQ(c->rope.yarn.factor, 64.0);
  EXPECT_EQ(c->rope.yarn.beta_fast, 32.0);
  EXPECT_EQ(c->max_position_embeddings, 262144);
  EXPECT_THAT(c->eos_token_ids, ElementsAre(163586));
}

}  // namespace
}  // namespace numoe
