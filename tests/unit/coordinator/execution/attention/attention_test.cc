// A model with layers of two kinds of attention.
#include "coordinator/execution/attention/attention.h"

#include <cstring>
#include <random>

#include "common/formats/bf16.h"
#include "coordinator/execution/device/cpu/cpu_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe::execution {
namespace {

constexpr int kHidden = 64, kBlockTokens = 4;

ModelConfig Config(std::vector<AttentionKind> layers) {
  ModelConfig c;
  c.hidden_size = kHidden;
  c.num_layers = static_cast<int>(layers.size());
  c.layer_attention = std::move(layers);
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = 32;
  c.kv_lora_rank = 48;
  c.qk_nope_head_dim = 16;
  c.qk_rope_head_dim = 32;
  c.v_head_dim = 16;
  c.rope.dim = 32;
  return c;
}

const std::vector<AttentionKind> kBoth = {AttentionKind::kMla, AttentionKind::kGqa, AttentionKind::kGqa,
                                          AttentionKind::kMla};

class AttentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ModelConfig c = Config(kBoth);
    SafetensorsWriter writer;
    for (int layer = 0; layer < c.num_layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".self_attn.";
      const auto linear = [&](const char* name, int rows, int cols) {
        writer.AddLinear(prefix + name, MatrixFormat::kBF16, rows, cols, 0.2f);
      };
      const auto norm = [&](const char* name, int size) {
        std::vector<std::byte> ones(static_cast<size_t>(size) * sizeof(uint16_t));
        const uint16_t one = EncodeBf16(1);
        for (size_t i = 0; i < ones.size(); i += sizeof(one)) std::memcpy(&ones[i], &one, sizeof(one));
        writer.Add(prefix + name, DType::kBF16, {size}, std::move(ones));
      };
      linear("o_proj", kHidden, kBoth[static_cast<size_t>(layer)] == AttentionKind::kGqa ? 4 * 32 : 4 * 16);
      if (kBoth[static_cast<size_t>(layer)] == AttentionKind::kGqa) {
        linear("q_proj", 4 * 32, kHidden);
        linear("k_proj", 2 * 32, kHidden);
        linear("v_proj", 2 * 32, kHidden);
        norm("q_norm.weight", 32);
        norm("k_norm.weight", 32);
      } else {
        linear("q_proj", 4 * (16 + 32), kHidden);
        linear("kv_a_proj_with_mqa", 48 + 32, kHidden);
        norm("kv_a_layernorm.weight", 48);
        linear("kv_b_proj", 4 * (16 + 16), 48);
      }
    }
    writer.Write(folder_.path());
    checkpoint_ = *Checkpoint::Open(folder_.path());
  }

  // Returns what attention adds to a residual of zeros, layer by layer, for 9 tokens and then for one more,
  // in a model with the layers `kinds`. Layers whose kind in the checkpoint is different are left out.
  std::vector<std::vector<float>> Run(const std::vector<AttentionKind>& kinds) {
    const ModelConfig c = Config(kinds);
    auto device = *CpuDevice::Create({.step_tokens_max = 16, .cpus = {0}, .precision = Precision::kFloat});
    DeviceStore& store = device->store();
    StepClock clock(nullptr);
    const auto attention = MakeAttention(c, store, clock);
    for (LayerId layer = 0; layer < c.num_layers; ++layer) {
      if (!Has(kinds, layer)) continue;
      const absl::Status loaded = attention[static_cast<size_t>(layer)]->LoadLayer(*checkpoint_, layer);
      EXPECT_TRUE(loaded.ok()) << loaded;
    }
    const Tensor x = store.NewTensor(kHidden), residual = store.NewTensor(kHidden, TensorUse::kResidual);
    std::mt19937 random(3);
    const std::vector<float> inputs = RandomFloats(10 * kHidden, random), zeros(10 * kHidden);
    const Matrix rows = *store.LoadEmbedding(View(inputs)), nothing = *store.LoadEmbedding(View(zeros));
    EXPECT_TRUE(device->ReserveKvCache({.blocks = 3, .block_tokens = kBlockTokens}).ok());

    std::vector<std::vector<float>> outputs(2 * kinds.size());
    for (const auto& [begin, end] : {std::pair(0, 9), std::pair(9, 10)}) {
      StepLayout layout{.blocks_per_sequence_max = 3};
      layout.block_tables = {2, 0, 1};
      for (int position = begin; position < end; ++position) {
        layout.tokens.push_back(position);
        layout.positions.push_back(position);
        layout.sequences.push_back(0);
      }
      const std::unique_ptr<Step> step = device->Begin(layout);
      step->ops().Embed(step->all(), rows, x);
      for (LayerId layer = 0; layer < c.num_layers; ++layer) {
        if (!Has(kinds, layer)) continue;
        step->ops().Embed(step->all(), nothing, residual);
        attention[static_cast<size_t>(layer)]->Forward(step->ops(), step->all(), layer, x, residual);
        const auto out = step->ReadLogits(step->all(), residual);
        outputs[static_cast<size_t>(layer) + (begin > 0 ? kinds.size() : 0)] = {out->logits.begin(),
                                                                                out->logits.end()};
      }
    }
    return outputs;
  }

  static bool Has(const std::vector<AttentionKind>& kinds, LayerId layer) {
    return kinds[static_cast<size_t>(layer)] == kBoth[static_cast<size_t>(layer)];
  }
  static MatrixView View(const std::vector<float>& values) {
    return {.format = MatrixFormat::kF32,
            .rows = static_cast<int64_t>(values.size()) / kHidden,
            .cols = kHidden,
            .data = absl::MakeSpan(reinterpret_cast<const std::byte*>(values.data()),
                                   values.size() * sizeof(float))};
  }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(AttentionTest, LayersOfAKindShareAnObjectAndACache) {
  auto device = *CpuDevice::Create({.step_tokens_max = 1, .cpus = {0}, .measure_only = true});
  StepClock clock(nullptr);
  const auto layers = MakeAttention(Config(kBoth), device->store(), clock);
  ASSERT_EQ(layers.size(), kBoth.size());
  EXPECT_EQ(layers[0], layers[3]);
  EXPECT_EQ(layers[1], layers[2]);
  EXPECT_NE(layers[0], layers[1]);
  // The bytes are BF16 rows of two layers with latents and two with keys and values.
  EXPECT_EQ(device->store().KvCacheBytes({.blocks = 1, .block_tokens = 1}),
            2u * 2 * (48 + 32) + 2u * 2 * (2 * 32 + 2 * 32));
}

TEST_F(AttentionTest, ALayerGivesTheSameResultAsInAModelOfOnlyItsKind) {
  const auto both = Run(kBoth);
  const auto mla = Run(std::vector<AttentionKind>(kBoth.size(), AttentionKind::kMla));
  const auto gqa = Run(std::vector<AttentionKind>(kBoth.size(), AttentionKind::kGqa));
  for (size_t i = 0; i < both.size(); ++i) {
    const bool latent = kBoth[i % kBoth.size()] == AttentionKind::kMla;
    ASSERT_EQ(both[i].size(), static_cast<size_t>((i < kBoth.size() ? 9 : 1) * kHidden));
    EXPECT_THAT(both[i], ::testing::Contains(::testing::Gt(0.01f))) << "attention must add something";
    EXPECT_EQ(both[i], latent ? mla[i] : gqa[i]) << "layer " << i % kBoth.size();
  }
  EXPECT_NE(both[0], both[3]) << "each layer must have its own weights";
}

}  // namespace
}  // namespace numoe::execution
