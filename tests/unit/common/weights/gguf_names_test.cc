#include "common/weights/gguf_names.h"

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(GgufNameTest, TensorsOfModelAndLayers) {
  EXPECT_EQ(GgufName("model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(GgufName("lm_head.weight"), "output.weight");
  EXPECT_EQ(GgufName("model.layers.0.self_attn.kv_a_proj_with_mqa.weight"), "blk.0.attn_kv_a_mqa.weight");
  EXPECT_EQ(GgufName("model.layers.60.mlp.gate.e_score_correction_bias"), "blk.60.exp_probs_b.bias");
  EXPECT_EQ(GgufName("model.layers.3.mlp.gate.weight"), "blk.3.ffn_gate_inp.weight");
  EXPECT_EQ(GgufName("model.layers.3.mlp.gate_proj.weight"), "blk.3.ffn_gate.weight");
  EXPECT_EQ(GgufName("model.layers.3.mlp.shared_experts.up_proj.weight"), "blk.3.ffn_up_shexp.weight");
}

TEST(GgufNameTest, OtherNamesAreNotTranslated) {
  for (const char* name :
       {"", "model.layers", "model.layers.", "model.layers.x.input_layernorm.weight",
        "model.layers.-1.input_layernorm.weight", "model.layers.1input_layernorm.weight",
        "model.layers.99999999999999999999.input_layernorm.weight", "model.layers.1.other.weight",
        "model.layers.1.mlp.experts.0.gate_proj.weight", "lm_head", "output.weight"}) {
    EXPECT_EQ(GgufName(name), std::nullopt) << name;
  }
}

TEST(ParseExpertModuleTest, LayerExpertAndPart) {
  const auto module = ParseExpertModule("model.layers.12.mlp.experts.345.down_proj");
  ASSERT_TRUE(module.has_value());
  EXPECT_EQ(module->layer, 12);
  EXPECT_EQ(module->expert, 345);
  EXPECT_EQ(module->part, "down");
  for (const char* name :
       {"model.layers.1.mlp.experts.2.gate_proj.weight", "model.layers.1.mlp.experts.gate_proj",
        "model.layers.1.mlp.experts.2.other_proj", "model.layers.1.mlp.shared_experts.gate_proj", ""}) {
    EXPECT_FALSE(ParseExpertModule(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace numoe
