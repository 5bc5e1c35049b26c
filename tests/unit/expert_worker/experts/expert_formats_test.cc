// Formats that are chosen for each matrix, and slices that prevent a block format from being held as it is
// stored.
#include "expert_worker/experts/expert_formats.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_conversion.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;

ModelConfig Config() {
  ModelConfig c;
  c.hidden_size = 256;
  c.num_layers = 3;
  c.layer_is_moe = {false, true, true};
  c.moe_intermediate_size = 512;
  c.num_experts = 2;
  c.experts_per_token = 1;
  return c;
}

// Writes a GGUF model with these types: gate and up of both layers, down of layer 1 and of layer 2.
class FormatsTest : public ::testing::Test {
 protected:
  void Write(GgmlType gate, GgmlType up, GgmlType down1, GgmlType down2) {
    GgufWriter writer;
    const auto add = [&](int layer, const char* part, GgmlType type, int rows, int cols) {
      const GgmlTraits& traits = TraitsOf(type);
      writer.AddTensor("blk." + std::to_string(layer) + ".ffn_" + part + "_exps.weight", type,
                       {2, rows, cols},
                       std::vector<std::byte>(static_cast<size_t>(2 * rows * cols / traits.block_values) *
                                              static_cast<size_t>(traits.block_bytes)));
    };
    for (const int layer : {1, 2}) {
      add(layer, "gate", gate, 512, 256);
      add(layer, "up", up, 512, 256);
      add(layer, "down", layer == 1 ? down1 : down2, 256, 512);
    }
    writer.Write(folder_.path() / "m.gguf");
    auto opened = Checkpoint::Open(folder_.path());
    ASSERT_TRUE(opened.ok()) << opened.status();
    checkpoint_ = *std::move(opened);
  }
  std::vector<ExpertFormats> Choose(const SliceSpec& spec = {},
                                    std::optional<WeightFormat> format = std::nullopt) const {
    const auto formats = ChooseFormats(*checkpoint_, Config(), spec, format);
    EXPECT_TRUE(formats.ok()) << formats.status();
    return formats.ok() ? *formats : std::vector<ExpertFormats>(3);
  }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(FormatsTest, EachLayersDownHasItsOwn) {
  Write(GgmlType::kQ4_K, GgmlType::kQ4_K, GgmlType::kQ6_K, GgmlType::kQ4_K);
  const std::vector<ExpertFormats> formats = Choose();
  ASSERT_EQ(formats.size(), 3u);
  EXPECT_EQ(formats[1].up, WeightFormat::kQ4K);
  EXPECT_EQ(formats[1].down, WeightFormat::kQ6K);
  EXPECT_EQ(formats[2].up, WeightFormat::kQ4K);
  EXPECT_EQ(formats[2].down, WeightFormat::kQ4K);
  EXPECT_EQ(NamesOf(formats, Config()), "q4_k, q6_k");
}

TEST_F(FormatsTest, GateAndUpShareOne) {
  Write(GgmlType::kQ4_K, GgmlType::kQ8_0, GgmlType::kBF16, GgmlType::kQ4_K);
  const std::vector<ExpertFormats> formats = Choose();
  EXPECT_EQ(formats[1].up, WeightFormat::kInt8);
  EXPECT_EQ(formats[1].down, WeightFormat::kBf16);
}

TEST_F(FormatsTest, ASliceThatCutsBlocksHoldsDownAsInt8) {
  Write(GgmlType::kQ4_K, GgmlType::kQ4_K, GgmlType::kQ4_K, GgmlType::kQ4_K);
  EXPECT_EQ(Choose({.worker_count = 2})[1].down, WeightFormat::kQ4K) << "256 columns each";
  const ExpertFormats cut = Choose({.worker_index = 3, .worker_count = 4})[1];
  EXPECT_EQ(cut.up, WeightFormat::kQ4K) << "rows may be cut";
  EXPECT_EQ(cut.down, WeightFormat::kInt8);
  EXPECT_EQ(Choose({.mode = SliceMode::kExpert, .worker_count = 2})[1].down, WeightFormat::kQ4K);
  const auto layout =
      SliceLayout::Plan(Config(), {.worker_count = 4}, Choose({.worker_count = 4}, WeightFormat::kQ4K));
  EXPECT_THAT(std::string(layout.status().message()),
              HasSubstr("would cut a block of 256 weights that share a scale (format q4_k)"));
}

TEST_F(FormatsTest, EveryBlockOf4BitsIsHeldAsStored) {  // for blocks of 6 bits see EachLayersDownHasItsOwn
  Write(GgmlType::kIq4Xs, GgmlType::kIq4Xs, GgmlType::kQ4_0, GgmlType::kQ4_1);
  EXPECT_EQ(NamesOf(Choose(), Config()), "q4_0, q4_1, iq4_xs");
  Write(GgmlType::kMxfp4, GgmlType::kMxfp4, GgmlType::kIq4Nl, GgmlType::kQ5_K);
  EXPECT_EQ(NamesOf(Choose(), Config()), "int8, iq4_nl, mxfp4");
  const auto layout = SliceLayout::Plan(Config(), {}, Choose());
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->up_bytes(1), PackedBytes(WeightFormat::kMxfp4, 512, 256));
}

TEST_F(FormatsTest, ASliceCutsBlocksOf256NotOf32) {
  Write(GgmlType::kQ4_0, GgmlType::kQ4_0, GgmlType::kQ6_K, GgmlType::kIq4Xs);
  EXPECT_EQ(Choose({.worker_index = 3, .worker_count = 4})[1].down, WeightFormat::kInt8);
  Write(GgmlType::kQ4_0, GgmlType::kQ4_0, GgmlType::kIq4Nl, GgmlType::kIq4Xs);
  const std::vector<ExpertFormats> formats = Choose({.worker_index = 3, .worker_count = 4});
  EXPECT_EQ(formats[1].down, WeightFormat::kIq4Nl);
  EXPECT_EQ(formats[2].down, WeightFormat::kInt8);
  EXPECT_TRUE(SliceLayout::Plan(Config(), {.worker_count = 4}, formats).ok());
}

// The line of the start log.
TEST_F(FormatsTest, TheLogSaysWhatIsExact) {
  Write(GgmlType::kMxfp4, GgmlType::kMxfp4, GgmlType::kQ4_1, GgmlType::kIq4Xs);
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  Choose({.worker_count = 4});
  Choose({}, WeightFormat::kInt8);
  spdlog::set_default_logger(before);
  EXPECT_THAT(text.str(), HasSubstr("held exactly: IQ4_XS as int8, MXFP4 as mxfp4, Q4_1 as q4_1\n"));
  EXPECT_THAT(text.str(), HasSubstr("held exactly: IQ4_XS as int8, MXFP4 as int8; rounded: Q4_1 as int8\n"));
}

TEST_F(FormatsTest, ALayoutHasEachLayersSizes) {
  Write(GgmlType::kQ4_K, GgmlType::kQ4_K, GgmlType::kQ6_K, GgmlType::kQ4_K);
  const auto layout = SliceLayout::Plan(Config(), {}, Choose());
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->up_bytes(1), PackedBytes(WeightFormat::kQ4K, 512, 256));
  EXPECT_EQ(layout->down_bytes(1), PackedBytes(WeightFormat::kQ6K, 256, 512));
  EXPECT_EQ(layout->down_bytes(2), PackedBytes(WeightFormat::kQ4K, 256, 512));
  EXPECT_EQ(layout->layer_bytes(2), 2 * (2 * layout->up_bytes(2) + layout->down_bytes(2)));
  const std::vector<std::byte> block(layout->layer_bytes(1));
  const ExpertWeights second = layout->WeightsAt(1, block.data(), 1);
  EXPECT_EQ(second.down.format, WeightFormat::kQ6K);
  EXPECT_EQ(second.down.data, block.data() + block.size() - layout->down_bytes(1));
}

TEST_F(FormatsTest, NamesRoundTrip) {
  const ExpertFormats mixed{WeightFormat::kQ4K, WeightFormat::kInt8};
  EXPECT_EQ(FormatsName(mixed), "q4_k/int8");
  EXPECT_EQ(*ParseFormats("q4_k/int8"), mixed);
  EXPECT_EQ(*ParseFormats("fp8"), (ExpertFormats{WeightFormat::kFp8, WeightFormat::kFp8}));
  EXPECT_FALSE(ParseFormats("q4_k/").ok());
  EXPECT_FALSE(ParseFormats("/int8").ok());
}

TEST_F(FormatsTest, AGivenFormatIsUsedForAllLayers) {
  Write(GgmlType::kQ4_K, GgmlType::kQ4_K, GgmlType::kQ6_K, GgmlType::kQ4_K);
  for (const ExpertFormats& layer :
       {Choose({}, WeightFormat::kInt4)[1], Choose({}, WeightFormat::kInt4)[2]}) {
    EXPECT_EQ(layer.up, WeightFormat::kInt4);
    EXPECT_EQ(layer.down, WeightFormat::kInt4);
  }
  EXPECT_EQ(NamesOf(Choose({}, WeightFormat::kBf16), Config()), "bf16");
}

TEST_F(FormatsTest, AModelWithoutExpertsIsRefused) {
  Write(GgmlType::kQ4_K, GgmlType::kQ4_K, GgmlType::kQ4_K, GgmlType::kQ4_K);
  ModelConfig dense = Config();
  dense.layer_is_moe = {false, false, false};
  EXPECT_THAT(std::string(ChooseFormats(*checkpoint_, dense, {}, std::nullopt).status().message()),
              HasSubstr("no MoE layer"));
}

}  // namespace
}  // namespace numoe::worker
