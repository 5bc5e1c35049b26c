// The choice of hot experts: the hottest are held after few exchanges, experts of equal use are not
// exchanged, and the heat follows recent use and survives a restart.
#include "coordinator/execution/model/hot_plan.h"

#include <cstdio>
#include <fstream>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

using ::testing::HasSubstr;
using Held = std::vector<std::vector<ExpertId>>;

ExpertHeat Heat(const std::vector<std::vector<uint32_t>>& layers, double half_life_s = 60) {
  ExpertHeat heat(static_cast<int>(layers.size()), static_cast<int>(layers[0].size()), half_life_s);
  std::vector<uint32_t> counts;
  for (const auto& layer : layers) counts.insert(counts.end(), layer.begin(), layer.end());
  heat.Add(counts, 0);
  return heat;
}

TEST(HotPlanTest, EmptySlotsGetTheHottestExpertsOfTheirLayer) {
  const auto swaps = PlanSwaps(Heat({{5, 9, 1, 7}, {0, 0, 3, 2}}), Held{{kNoExpert, kNoExpert}, {kNoExpert}});
  ASSERT_EQ(swaps.size(), 3u);
  EXPECT_EQ(swaps[0], (ExpertSwap{.layer = 0, .slot = 0, .expert = 1, .gain = 9}));
  EXPECT_EQ(swaps[1], (ExpertSwap{.layer = 0, .slot = 1, .expert = 3, .gain = 7}));
  EXPECT_EQ(swaps[2], (ExpertSwap{.layer = 1, .slot = 0, .expert = 2, .gain = 3}));
}

TEST(HotPlanTest, UnusedExpertsAlsoFillEmptySlots) {
  EXPECT_EQ(PlanSwaps(Heat({{0, 0, 0}}), Held{{kNoExpert, kNoExpert}}).size(), 2u);
  EXPECT_TRUE(PlanSwaps(Heat({{0, 0, 0}}), Held{{1, 2}}).empty());
}

TEST(HotPlanTest, OnlyAClearGainExchangesAnExpert) {
  EXPECT_TRUE(PlanSwaps(Heat({{100, 120, 0, 0}}), Held{{0}}).empty());
  const auto swaps = PlanSwaps(Heat({{100, 130, 0, 0}}), Held{{0}});
  ASSERT_EQ(swaps.size(), 1u);
  EXPECT_EQ(swaps[0].expert, 1);
}

TEST(HotPlanTest, SwapsEndWhenTheHottestAreHeld) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<uint32_t>> use(3, std::vector<uint32_t>(16));
    for (auto& layer : use) {
      for (uint32_t& count : layer) count = random() % 1000;
    }
    const ExpertHeat heat = Heat(use);
    Held held{{1, 2, 3, 4}, {}, {0, 15, 7, 8}};  // the second layer is dense
    for (const ExpertSwap& swap : PlanSwaps(heat, held)) {
      EXPECT_NE(swap.layer, 1);
      held[static_cast<size_t>(swap.layer)][static_cast<size_t>(swap.slot)] = swap.expert;
    }
    EXPECT_TRUE(PlanSwaps(heat, held).empty());
    for (const int layer : {0, 2}) {
      const auto& slots = held[static_cast<size_t>(layer)];
      EXPECT_EQ(std::set<ExpertId>(slots.begin(), slots.end()).size(), slots.size())
          << "an expert is held twice";
      double coldest = 1e9;
      for (const ExpertId expert : slots) coldest = std::min(coldest, heat.At(layer, expert));
      for (ExpertId expert = 0; expert < 16; ++expert) {
        if (std::find(slots.begin(), slots.end(), expert) != slots.end()) continue;
        EXPECT_LE(heat.At(layer, expert), coldest * kSwapGain);
      }
    }
  }
}

TEST(ExpertHeatTest, HalvesEveryHalfLife) {
  ExpertHeat heat = Heat({{64, 0}}, /*half_life_s=*/10);
  heat.Add(std::vector<uint32_t>{0, 5}, 20);
  EXPECT_DOUBLE_EQ(heat.At(0, 0), 16);
  EXPECT_DOUBLE_EQ(heat.At(0, 1), 5);
}

TEST(ExpertHeatTest, SurvivesARestartAndRefusesOtherFiles) {
  const std::string path = ::testing::TempDir() + "/heat-" + std::to_string(getpid()) + ".json";
  ASSERT_TRUE(Heat({{1, 2, 3}, {4, 5, 6}}).Save(path).ok());
  ExpertHeat again(2, 3, 60);
  ASSERT_TRUE(again.Load(path).ok());
  EXPECT_EQ(again.At(1, 2), 6);
  ExpertHeat other(3, 3, 60);
  EXPECT_THAT(other.Load(path).ToString(), HasSubstr("9 numbers"));
  for (const char* text : {"", "[]", R"({"heat": [1, 2, "x", 4, 5, 6], "experts": 3})",
                           R"({"heat": [1, 2, -1, 4, 5, 6], "experts": 3})"}) {
    std::ofstream(path) << text;
    EXPECT_TRUE(absl::IsInvalidArgument(again.Load(path))) << text;
  }
  std::remove(path.c_str());
  EXPECT_TRUE(absl::IsNotFound(again.Load(path)));
}

}  // namespace
}  // namespace numoe::execution
