// Plans of windows: every expert that the device lacks is fetched exactly once, from all workers that have a
// part of it; parts that do not form an expert are rejected.
#include "coordinator/execution/device/cuda/expert_window_plan.h"

#include <map>
#include <random>
#include <set>

#include "common/kernels/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

using ::testing::HasSubstr;

// Returns the expert at a place of a worker's block.
ExpertId ExpertAt(const ExpertShare& share, int worker, int place) {
  return share.by_expert ? worker + place * share.worker_count : place;
}

TEST(ExpertWindowPlanTest, EveryExpertThatIsNotHeldIsFetchedOnceFromEachWorkerThatHasIt) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const ExpertShare share{.by_expert = random() % 2 == 0,
                            .worker_index = 0,
                            .worker_count = static_cast<int>(random() % 4) + 1,
                            .num_experts = static_cast<int>(random() % 40) + 4};
    const int capacity = static_cast<int>(random() % 12) + 1;
    std::set<ExpertId> held;
    for (ExpertId e = 0; e < share.num_experts; ++e)
      if (random() % 4 == 0) held.insert(e);
    const auto windows = PlanWindows(3, share, capacity, [&](ExpertId e) { return held.count(e) > 0; });
    std::set<ExpertId> fetched;
    for (const ExpertWindow& window : windows) {
      EXPECT_EQ(window.layer, 3);
      ASSERT_FALSE(window.experts.empty());
      ASSERT_LE(static_cast<int>(window.experts.size()), capacity);
      std::map<ExpertId, std::set<int>> from;
      for (const WindowCopy& copy : window.copies) {
        for (int i = 0; i < copy.count; ++i) {
          const ExpertId expert = ExpertAt(share, copy.worker, copy.place + i);
          ASSERT_LT(static_cast<size_t>(copy.slot + i), window.experts.size());
          EXPECT_EQ(window.experts[static_cast<size_t>(copy.slot + i)], expert);
          EXPECT_TRUE(from[expert].insert(copy.worker).second);
        }
      }
      ASSERT_EQ(from.size(), window.experts.size());
      for (const auto& [expert, workers] : from) {
        EXPECT_EQ(workers.size(), share.by_expert ? 1u : static_cast<size_t>(share.worker_count));
        EXPECT_EQ(held.count(expert), 0u);
        EXPECT_TRUE(fetched.insert(expert).second);
      }
    }
    EXPECT_EQ(fetched.size() + held.size(), static_cast<size_t>(share.num_experts));
    EXPECT_EQ(windows.size(),
              (fetched.size() + static_cast<size_t>(capacity) - 1) / static_cast<size_t>(capacity));
  }
}

TEST(ExpertWindowPlanTest, ContiguousExpertsAreOneCopy) {
  const auto windows = PlanWindows(0, {.by_expert = true, .worker_count = 2, .num_experts = 8}, 8,
                                   [](ExpertId e) { return e == 2; });
  ASSERT_EQ(windows.size(), 1u);
  ASSERT_EQ(windows[0].copies.size(), 3u);  // 0 | 4 6 | 1 3 5 7
  EXPECT_EQ(windows[0].copies[1].count, 2);
  EXPECT_EQ(windows[0].copies[2].count, 4);
  EXPECT_EQ(windows[0].copies[2].slot, 3);
}

LayerPart Part(int64_t first, int width, const std::string& up = "raw_int4",
               const std::string& down = "raw_int4") {
  constexpr int kHidden = 96;
  const uint64_t bytes = 2 * PackedBytes(*ParseWeightFormat(up), width, kHidden) +
                         PackedBytes(*ParseWeightFormat(down), kHidden, width);
  return {.layer = {.layer = 2, .offset = 0, .expert_bytes = bytes, .up_format = up, .down_format = down},
          .width = width,
          .first = first};
}

TEST(ExpertWindowPlanTest, PartsFormAnExpert) {
  const auto slot = SlotOfParts({Part(0, 64, "fp8", "bf16"), Part(64, 128, "fp8", "bf16")}, false, 96, 192);
  ASSERT_TRUE(slot.ok()) << slot.status();
  EXPECT_EQ(slot->up_format, DeviceFormat::kFp8);
  EXPECT_EQ(slot->down_format, DeviceFormat::kBf16);
  EXPECT_EQ(slot->width, 192);
  // Formats that no product kernel decodes are held as BF16.
  const auto widened = SlotOfParts({Part(0, 192, "raw_int4", "q6_k")}, false, 96, 192);
  ASSERT_TRUE(widened.ok()) << widened.status();
  EXPECT_EQ(widened->up_format, DeviceFormat::kInt4);
  EXPECT_EQ(widened->down_format, DeviceFormat::kBf16);
  EXPECT_TRUE(SlotOfParts({Part(0, 40), Part(0, 40)}, true, 96, 40).ok());
  EXPECT_TRUE(SlotOfParts({Part(0, 40)}, false, 96, 40).ok());
}

TEST(ExpertWindowPlanTest, PartsThatDoNotFormAnExpertAreRejected) {
  const auto error = [](const std::vector<LayerPart>& parts, bool by_expert = false, int width = 192) {
    return SlotOfParts(parts, by_expert, 96, width).status();
  };
  EXPECT_THAT(error({Part(0, 32), Part(32, 160)}).ToString(), HasSubstr("--slice=expert"));
  EXPECT_TRUE(absl::IsUnimplemented(error({Part(0, 64, "int4"), Part(64, 128, "fp8")})));
  EXPECT_TRUE(absl::IsInvalidArgument(error({Part(0, 64), Part(128, 64)})));
  EXPECT_TRUE(absl::IsInvalidArgument(error({Part(0, 64)})));
  EXPECT_TRUE(absl::IsInvalidArgument(error({Part(0, 64), Part(64, 192)})));
  EXPECT_TRUE(absl::IsInvalidArgument(error({Part(0, 64), Part(0, 192)}, /*by_expert=*/true)));
  LayerPart wrong = Part(0, 192);
  wrong.layer.expert_bytes += 64;
  EXPECT_THAT(error({wrong}).ToString(), HasSubstr("expected"));
  wrong.layer.up_format = "nonsense";
  EXPECT_FALSE(error({wrong}).ok());
}

}  // namespace
}  // namespace numoe::execution::cuda
