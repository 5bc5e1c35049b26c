// Which weights slices hold, and where they are in a block.
#include "expert_worker/experts/slice_layout.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig SlicedConfig(int width = 256) {
  ModelConfig config;
  config.hidden_size = 128;
  config.moe_intermediate_size = width;
  config.num_experts = 6;
  config.layer_is_moe = {false, true, true};
  return config;
}

std::vector<ExpertFormats> All(WeightFormat format) {
  return std::vector<ExpertFormats>(3, {format, format});
}

std::string Refused(const ModelConfig& config, const SliceSpec& spec,
                    WeightFormat format = WeightFormat::kBf16) {
  return std::string(SliceLayout::Plan(config, spec, All(format)).status().message());
}

TEST(SliceLayoutTest, WorkersHoldEveryExpertsPartOnce) {
  std::set<int64_t> rows;
  for (int worker = 0; worker < 4; ++worker) {
    const auto layout = SliceLayout::Plan(SlicedConfig(), {.worker_index = worker, .worker_count = 4},
                                          All(WeightFormat::kBf16));
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(layout->width(), 64);
    EXPECT_EQ(layout->experts().size(), 6u);
    for (int row = 0; row < layout->width(); ++row) EXPECT_TRUE(rows.insert(layout->first() + row).second);
  }
  EXPECT_EQ(rows.size(), 256u);
  EXPECT_EQ(*rows.rbegin(), 255);
}

TEST(SliceLayoutTest, OrWholeExpertsOnce) {
  const auto layout =
      SliceLayout::Plan(SlicedConfig(), {.mode = SliceMode::kExpert, .worker_index = 1, .worker_count = 4},
                        All(WeightFormat::kBf16));
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_THAT(layout->experts(), ElementsAre(1, 5));
  EXPECT_THAT(layout->owned(), ElementsAre(false, true, false, false, false, true));
  EXPECT_EQ(layout->width(), 256);
  EXPECT_EQ(layout->first(), 0);
}

TEST(SliceLayoutTest, AnExpertsMatricesFollowEachOther) {
  std::vector<ExpertFormats> formats = All(WeightFormat::kBf16);
  formats[2] = {WeightFormat::kInt8, WeightFormat::kFp8};
  const auto layout =
      SliceLayout::Plan(SlicedConfig(), {.mode = SliceMode::kExpert, .worker_count = 2}, formats);
  ASSERT_TRUE(layout.ok()) << layout.status();
  for (const LayerId layer : {1, 2}) {
    const std::vector<std::byte> bytes(layout->layer_bytes(layer));
    const std::byte* block = bytes.data();
    const ExpertWeights first = layout->WeightsAt(layer, block, 0),
                        second = layout->WeightsAt(layer, block, 1);
    EXPECT_EQ(first.gate.data, block);
    EXPECT_EQ(static_cast<size_t>(first.up.data - first.gate.data), layout->up_bytes(layer));
    EXPECT_EQ(static_cast<size_t>(first.down.data - first.up.data), layout->up_bytes(layer));
    EXPECT_EQ(static_cast<size_t>(second.gate.data - first.down.data), layout->down_bytes(layer));
    EXPECT_EQ(layout->layer_bytes(layer), 3 * layout->expert_bytes(layer));
    EXPECT_EQ(first.down.rows, 128);
    EXPECT_EQ(first.down.cols, 256);
    EXPECT_EQ(first.up.rows, 256);
    EXPECT_EQ(first.down.format, formats[static_cast<size_t>(layer)].down);
    EXPECT_EQ(first.gate.format, formats[static_cast<size_t>(layer)].up);
  }
}

TEST(SliceLayoutTest, InvalidSpecsNameTheirFlag) {
  EXPECT_THAT(Refused(SlicedConfig(), {.worker_count = 0}), HasSubstr("--worker-count=0: expected 1 to"));
  EXPECT_THAT(Refused(SlicedConfig(), {.worker_index = 2, .worker_count = 2}),
              HasSubstr("--worker-index=2: expected 0 to 1"));
  EXPECT_THAT(Refused(SlicedConfig(), {.worker_index = -1, .worker_count = 2}),
              HasSubstr("--worker-index=-1"));
  EXPECT_THAT(Refused(SlicedConfig(), {.mode = SliceMode::kExpert, .worker_count = 7}),
              HasSubstr("the model has only 6 experts"));
}

TEST(SliceLayoutTest, WeightsThatShareAScaleAreNotCut) {
  const SliceSpec four{.worker_count = 4};
  EXPECT_EQ(Refused(SlicedConfig(256), four, WeightFormat::kFp8), "");
  EXPECT_THAT(Refused(SlicedConfig(128), four, WeightFormat::kFp8),
              HasSubstr("half a block of 128 weights that share a scale (format fp8)"));
  EXPECT_THAT(Refused(SlicedConfig(64), four, WeightFormat::kInt4),
              HasSubstr("expected a multiple of 32 for each worker: use --slice=expert"));
  EXPECT_THAT(Refused(SlicedConfig(256), four, WeightFormat::kQ4K), HasSubstr("a block of 256 weights"));
  EXPECT_EQ(Refused(SlicedConfig(1024), four, WeightFormat::kQ4K), "");
  EXPECT_EQ(Refused(SlicedConfig(40), {.mode = SliceMode::kExpert, .worker_count = 2}), "")
      << "whole experts are never cut";
  EXPECT_EQ(Refused(SlicedConfig(40), {.worker_count = 1}), "") << "with one worker nothing is cut";
  EXPECT_FALSE(CutsBlocks(four, SlicedConfig(256), WeightFormat::kQ4K, /*is_down=*/false))
      << "rows of gate and up are cut at panels";
  EXPECT_TRUE(CutsBlocks(four, SlicedConfig(256), WeightFormat::kQ4K, /*is_down=*/true));
}

}  // namespace
}  // namespace numoe::worker
