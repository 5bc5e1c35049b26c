// The whole model from GGUF files: golden checkpoints that were converted without loss have the logits of the
// reference, and for every stored format the logits equal those of the safetensors checkpoint with the same
// weights.
//
// If both forms become the same packed bytes (dense parts in F32, experts held as BF16), the logits are equal
// bit for bit. If not, because int8 keeps weights of a block format that BF16 must round, every expert is
// selected, so that rounding cannot change the selection, and the logits differ only by the rounding.
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "common/json/json_reader.h"
#include "common/weights/mapped_file.h"
#include "common/weights/safetensors.h"
#include "coordinator/execution/device/cpu/cpu_device.h"
#include "coordinator/execution/device/kv_block.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/transport/local_backend.h"
#include "expert_worker/experts/expert_executor.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_conversion.h"

namespace numoe::execution {
namespace {

// Returns the logits at every position of one prompt; inputs of matrices stay fp32. `format` is the format in
// which experts are held; each of `workers` workers holds a part of their width.
std::vector<float> LogitsOf(const Checkpoint& checkpoint, const ModelConfig& config,
                            const std::vector<TokenId>& tokens, const std::string& format, int workers = 1) {
  const auto held = ParseWeightFormatOrAuto(format);
  EXPECT_TRUE(held.ok()) << held.status();
  std::vector<std::unique_ptr<worker::ExpertExecutor>> executors;
  std::vector<LayerExecutor*> slices;
  for (int w = 0; w < workers; ++w) {
    auto executor = worker::ExpertExecutor::Load(checkpoint, config,
                                                 {.slice = {.worker_index = w, .worker_count = workers},
                                                  .format = *held,
                                                  .precision = Precision::kFloat,
                                                  .threads = 2});
    EXPECT_TRUE(executor.ok()) << executor.status();
    executors.push_back(*std::move(executor));
    slices.push_back(executors.back().get());
  }
  LocalBackend backend(slices);
  auto device = CpuDevice::Create({.step_tokens_max = 64, .cpus = {0, 0}, .precision = Precision::kFloat});
  EXPECT_TRUE(device.ok()) << device.status();
  const int blocks = static_cast<int>(tokens.size()) / kKvBlockTokens + 1;
  auto model = Model::Load(checkpoint, config, {.kv_blocks = blocks}, **device, backend);
  EXPECT_TRUE(model.ok()) << model.status();
  std::vector<KvBlockId> table(static_cast<size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  StepBatch batch;
  batch.sequences.push_back(
      {.tokens = tokens, .position = 0, .blocks = table, .logits_last = static_cast<int>(tokens.size())});
  const auto logits = (*model)->Forward(batch);
  EXPECT_TRUE(logits.ok()) << logits.status();
  return {logits->values.begin(), logits->values.end()};
}

std::unique_ptr<Checkpoint> OpenOrDie(const std::filesystem::path& path) {
  auto checkpoint = Checkpoint::Open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

ModelConfig ConfigOrDie(const std::filesystem::path& path) {
  const auto config = ReadModelConfig(path);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

double WorstDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
  return worst;
}

// Returns the root mean square of the difference, divided by that of the logits.
double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double errors = 0, squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    errors += std::pow(static_cast<double>(a[i]) - b[i], 2);
    squares += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(errors / squares);
}

struct GoldenCase {
  const char* checkpoint;
  GgmlType experts;
  GgmlType dense;
};

class GoldenGgufTest : public ::testing::TestWithParam<GoldenCase> {
 protected:
  void SetUp() override {
    const std::filesystem::path dir = std::filesystem::path("tests/golden/data") / GetParam().checkpoint;
    const auto file = MappedFile::Open(dir / "expected/expected.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    const auto header = ParseSafetensorsHeader(file->bytes(), "expected");
    ASSERT_TRUE(header.ok()) << header.status();
    const bool amx = *SelectIsa("auto") == Isa::kAmx;
    tokens_ = Copy<TokenId>(header->tensors.at("input_ids"));
    expected_ = Copy<float>(header->tensors.at(amx ? "logits" : "logits_bf16_cache"));
    const auto meta = ReadTextFile(dir / "expected/meta.json", 1 << 20);
    tolerance_ = nlohmann::json::parse(*meta)[amx ? "bf16_rounding_max" : "fp32_tolerance"].get<double>();
    const auto source = OpenOrDie(dir);
    ConvertToGguf(*source, ConfigOrDie(dir), {.experts = GetParam().experts, .dense = GetParam().dense})
        .gguf.Write(path_);
  }

  template <typename T>
  static std::vector<T> Copy(const TensorView& view) {
    std::vector<T> values(static_cast<size_t>(view.ElementCount()));
    std::memcpy(values.data(), view.data.data(), view.data.size());
    return values;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.gguf";
  std::vector<TokenId> tokens_;
  std::vector<float> expected_;
  double tolerance_ = 0;
};

TEST_P(GoldenGgufTest, LogitsEqualThoseOfTheReference) {
  const std::vector<float> logits = LogitsOf(*OpenOrDie(path_), ConfigOrDie(path_), tokens_, "auto");
  if (GetParam().dense == GgmlType::kQ8_0) {
    EXPECT_LE(RelativeDifference(logits, expected_), 0.05) << "rounding changes each weight by 0.6 %";
  } else {
    EXPECT_LE(WorstDifference(logits, expected_), tolerance_);
  }
}

// Q4_0 represents the codes and scales of the INT4 checkpoints exactly: fp16 has enough bits for their BF16
// scales.
INSTANTIATE_TEST_SUITE_P(
    All, GoldenGgufTest,
    ::testing::Values(GoldenCase{"kimi-k2-thinking-int4", GgmlType::kQ4_0, GgmlType::kBF16},
                      GoldenCase{"kimi-k2-thinking-int4", GgmlType::kQ8_0, GgmlType::kQ8_0},
                      GoldenCase{"kimi-k25-int4", GgmlType::kQ4_0, GgmlType::kF32},
                      GoldenCase{"qwen3-moe-bf16", GgmlType::kF32, GgmlType::kF32},
                      GoldenCase{"qwen3-moe-bf16", GgmlType::kBF16, GgmlType::kBF16},
                      GoldenCase{"qwen3-moe-bf16", GgmlType::kQ8_0, GgmlType::kQ8_0}),
    [](const auto& test) {
      std::string name = std::string(test.param.checkpoint) + "_" + TraitsOf(test.param.experts).name + "_" +
                         TraitsOf(test.param.dense).name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

ModelConfig SmallDeepSeek() {
  ModelConfig c;
  c.model_type = "deepseek_v3";
  c.hidden_size = 256;
  c.num_layers = 2;
  c.layer_attention = {AttentionKind::kMla, AttentionKind::kMla};
  c.vocab_size = 96;
  c.max_position_embeddings = 64;
  c.num_heads = 4;
  c.q_lora_rank = 64;
  c.kv_lora_rank = 64;
  c.qk_nope_head_dim = 32;
  c.qk_rope_head_dim = 16;
  c.v_head_dim = 32;
  c.rope = {.layout = RopeLayout::kInterleaved,
            .theta = 50,
            .dim = 16,
            .has_yarn = true,
            .yarn = {.factor = 4,
                     .beta_fast = 32,
                     .beta_slow = 1,
                     .mscale = 0.5,
                     .mscale_all_dim = 0.5,
                     .original_max_position_embeddings = 16}};
  c.intermediate_size = 192;
  c.moe_intermediate_size = 256;
  c.num_experts = 8;
  c.experts_per_token = 3;
  c.num_shared_experts = 1;
  c.layer_is_moe = {false, true};
  c.n_group = 4;
  c.topk_group = 2;
  c.routed_scaling_factor = 2.5;
  c.eos_token_ids = {1};
  c.bos_token_id = 0;
  return c;
}

ModelConfig SmallQwen() {
  ModelConfig c = SmallDeepSeek();
  c.model_type = "qwen3_moe";
  c.layer_attention.assign(static_cast<size_t>(c.num_layers), AttentionKind::kGqa);
  c.num_kv_heads = 2;
  c.head_dim = 32;
  c.rope = {.layout = RopeLayout::kHalf, .theta = 1e6, .dim = 32};
  c.num_shared_experts = 0;
  c.layer_is_moe = {true, true};
  c.scoring = GateScoring::kSoftmax;
  c.n_group = c.topk_group = 1;
  c.routed_scaling_factor = 1.0;
  return c;
}

// A random model as a GGUF file and, decoded, as safetensors.
class Twins {
 public:
  Twins(const ModelConfig& config, const GgufOptions& options) {
    RandomModel(config, 11).Write(folder_.path());
    const GgufConversion made = ConvertToGguf(*OpenOrDie(folder_.path()), config, options);
    made.decoded.Write(folder_.path());
    made.gguf.Write(folder_.path() / "m.gguf");
    for (int i = 0; i < 24; ++i) tokens_.push_back((i * 37 + 5) % config.vocab_size);
    twin_config_ = config;
  }
  std::vector<float> Gguf(const std::string& format, int workers = 1) const {
    const std::filesystem::path path = folder_.path() / "m.gguf";
    return LogitsOf(*OpenOrDie(path), ConfigOrDie(path), tokens_, format, workers);
  }
  std::vector<float> Decoded(const std::string& format) const {
    return LogitsOf(*OpenOrDie(folder_.path()), twin_config_, tokens_, format);
  }

 private:
  TemporaryFolder folder_;
  ModelConfig twin_config_;
  std::vector<TokenId> tokens_;
};

using Family = ModelConfig (*)();
class GgufFormatTest : public ::testing::TestWithParam<std::tuple<Family, GgmlType>> {
 protected:
  static ModelConfig AllExpertsChosen(ModelConfig config) {
    config.num_experts = config.experts_per_token = 4;
    config.n_group = config.topk_group = 1;
    return config;
  }
};

TEST_P(GgufFormatTest, ExpertsGiveTheLogitsOfTheSameWeightsInSafetensors) {
  const auto& [family, type] = GetParam();
  const Twins twins(family(), {.experts = type});
  EXPECT_EQ(WorstDifference(twins.Gguf("bf16"), twins.Decoded("bf16")), 0.0);
}

TEST_P(GgufFormatTest, DenseTensorsAndInt8ExpertsDifferByRoundingOnly) {
  const auto& [family, type] = GetParam();
  const Twins twins(AllExpertsChosen(family()), {.experts = type, .dense = type});
  EXPECT_LE(RelativeDifference(twins.Gguf("auto"), twins.Decoded("auto")), 0.03);
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufFormatTest,
    ::testing::Combine(::testing::Values(&SmallDeepSeek, &SmallQwen),
                       ::testing::Values(GgmlType::kF32, GgmlType::kF16, GgmlType::kBF16, GgmlType::kQ4_0,
                                         GgmlType::kQ4_1, GgmlType::kQ5_0, GgmlType::kQ5_1, GgmlType::kQ8_0,
                                         GgmlType::kQ2_K, GgmlType::kQ3_K, GgmlType::kQ4_K, GgmlType::kQ5_K,
                                         GgmlType::kQ6_K, GgmlType::kIq4Nl, GgmlType::kIq4Xs,
                                         GgmlType::kMxfp4)),
    [](const auto& test) {
      return std::string(std::get<0>(test.param) == &SmallDeepSeek ? "deepseek2_" : "qwen3moe_") +
             TraitsOf(std::get<1>(test.param)).name;
    });

class GgufLayoutTest : public ::testing::TestWithParam<GgufOptions> {};

TEST_P(GgufLayoutTest, EveryLayoutGivesTheSameLogits) {
  for (const Family family : {&SmallDeepSeek, &SmallQwen}) {
    const Twins twins(family(), GetParam());
    EXPECT_EQ(WorstDifference(twins.Gguf("bf16"), twins.Decoded("bf16")), 0.0) << family().model_type;
  }
}

TEST_P(GgufLayoutTest, EveryLayoutGivesTheSameLogitsWithoutALowRankQueryAndWithATiedHead) {
  ModelConfig config = SmallDeepSeek();
  config.q_lora_rank = 0;
  config.tie_word_embeddings = true;
  const Twins twins(config, GetParam());
  EXPECT_EQ(WorstDifference(twins.Gguf("bf16"), twins.Decoded("bf16")), 0.0);
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufLayoutTest,
    ::testing::Values(GgufOptions{.experts = GgmlType::kQ4_K, .layout = GgufExperts::kMerged},
                      GgufOptions{.experts = GgmlType::kQ4_K, .layout = GgufExperts::kFusedGateUp},
                      GgufOptions{.experts = GgmlType::kQ4_K, .layout = GgufExperts::kOneByOne},
                      GgufOptions{.experts = GgmlType::kQ6_K, .split_kv_b = false}),
    [](const auto& test) { return std::to_string(test.index); });

// The format auto holds these blocks as stored, and int8 holds the same codes and scales: the logits are
// equal bit for bit.
TEST(GgufAutoTest, AutoHoldsBlocksOf4BitsAsStored) {
  for (const auto& [type, format] : {std::pair{GgmlType::kQ4_0, "q4_0"},
                                     {GgmlType::kIq4Nl, "iq4_nl"},
                                     {GgmlType::kIq4Xs, "iq4_xs"},
                                     {GgmlType::kMxfp4, "mxfp4"}}) {
    const Twins twins(SmallDeepSeek(), {.experts = type});
    const std::vector<float> stored = twins.Gguf("auto");
    EXPECT_EQ(WorstDifference(twins.Gguf(format), stored), 0.0) << format;
    EXPECT_EQ(WorstDifference(twins.Gguf("int8"), stored), 0.0) << format;
  }
}

// Returns a model of one layer. In a second layer the cache would round keys to BF16. The keys differ by the
// order in which the workers' sums were added, so some would be rounded to the next value.
ModelConfig OneLayer(ModelConfig config) {
  config.num_layers = 1;
  config.layer_is_moe.resize(1);
  return config;
}

// The width of 256 is one block of the down matrix, so each worker holds a part of a block.
TEST(GgufSliceTest, WorkersDivideBlocksOf256) {
  for (const GgmlType type : {GgmlType::kQ4_K, GgmlType::kIq4Xs, GgmlType::kQ6_K}) {
    const Twins twins(OneLayer(SmallQwen()), {.experts = type});
    EXPECT_LE(RelativeDifference(twins.Gguf("int8", 4), twins.Gguf("int8")), 1e-5) << TraitsOf(type).name;
  }
}

// With twice the width, two workers hold whole blocks, as stored.
TEST(GgufSliceTest, WorkersShareBlocksOf256) {
  ModelConfig config = OneLayer(SmallQwen());
  config.moe_intermediate_size = 512;
  for (const auto& [type, format] :
       {std::pair{GgmlType::kQ4_K, "q4_k"}, {GgmlType::kQ4_1, "q4_1"}, {GgmlType::kQ6_K, "q6_k"}}) {
    const Twins twins(config, {.experts = type});
    const std::vector<float> whole = twins.Gguf("auto");
    EXPECT_LE(RelativeDifference(twins.Gguf("auto", 2), whole), 1e-5) << format;
    EXPECT_GT(RelativeDifference(twins.Gguf("int8"), whole), 1e-3) << format << ": int8 rounds";
    EXPECT_LE(RelativeDifference(twins.Gguf(format), whole), 0.0)
        << format << ": auto must choose this format";
  }
}

// A quarter of 256 columns does not divide blocks of 32, but it divides those of IQ4_XS, which become int8.
TEST(GgufSliceTest, WorkersShareBlocksOf32) {
  for (const GgmlType type :
       {GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kIq4Nl, GgmlType::kIq4Xs, GgmlType::kMxfp4}) {
    const Twins twins(OneLayer(SmallQwen()), {.experts = type});
    EXPECT_LE(RelativeDifference(twins.Gguf("auto", 4), twins.Gguf("auto")), 1e-5) << TraitsOf(type).name;
  }
}

}  // namespace
}  // namespace numoe::execution
