// The plan's text and refusals, and that a device which only measures counts what one that loads holds.
#include "coordinator/model/memory_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGib = 1ull << 30;

MemoryPlan Plan(uint64_t available) {
  return {.needs = {.weights = 12 * kGib, .kv_cache = 8 * kGib, .scratch = 1 * kGib},
          .grammars = kGib / 2,
          .available = available,
          .kv_tokens = 131'072,
          .step_tokens = 2048};
}

TEST(MemoryPlanTest, TheTableNamesEveryPartAndTheSum) {
  const std::vector<std::string> lines = Plan(30 * kGib).Table();
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[1], HasSubstr("12.00 GiB"));
  EXPECT_THAT(lines[2], HasSubstr("131072 tokens of 64.0 KiB in bf16"));
  EXPECT_THAT(lines[3], HasSubstr("activations of 2048 tokens"));
  EXPECT_THAT(lines[4], HasSubstr("512.0 MiB"));
  EXPECT_THAT(lines[5], HasSubstr("21.50 GiB  of 30.00 GiB available"));
}

TEST(MemoryPlanTest, WhatFitsExactlyFits) {
  EXPECT_TRUE(Plan(21 * kGib + kGib / 2).Check().ok());
  EXPECT_FALSE(Plan(21 * kGib + kGib / 2 - 1).Check().ok());
}

TEST(MemoryPlanTest, ARefusalNamesWhatWouldFit) {
  const absl::Status status = Plan(17 * kGib + kGib / 2).Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--max-total-tokens=65536 fits (now 131072)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--kv-cache-dtype=fp8_e4m3"));
  MemoryPlan less = Plan(17 * kGib + kGib / 2);
  less.needs.kv_cache /= 2;
  less.kv_tokens /= 2;
  EXPECT_TRUE(less.Check().ok());
}

TEST(MemoryPlanTest, WhatOthersWillTakeIsNamed) {
  MemoryPlan plan = Plan(17 * kGib + kGib / 2);
  plan.others = "of 31.50 GiB that are free 14.00 GiB are reserved by numoe-expert-worker, process 7";
  EXPECT_THAT(plan.Table().back(), HasSubstr("of 17.50 GiB available (of 31.50 GiB that are free 14.00 GiB"));
  EXPECT_THAT(std::string(plan.Check().message()),
              HasSubstr("17.50 GiB are available to this process (of 31.50 GiB that are free 14.00 GiB are "
                        "reserved by numoe-expert-worker, process 7), but the model takes 21.50 GiB: "));
}

TEST(MemoryPlanTest, WindowsAreToldAndDoneWithoutWhereThatHelps) {
  MemoryPlan plan = Plan(30 * kGib);
  plan.window = 96;
  plan.needs.windows = 9 * kGib;
  EXPECT_THAT(plan.Table()[4], ::testing::AllOf(HasSubstr("9.00 GiB"), HasSubstr("two of 96 experts")));
  EXPECT_THAT(std::string(plan.Check().message()), HasSubstr("--gpu-prefill-token-threshold=off"));
  plan.available = 31 * kGib;
  EXPECT_TRUE(plan.Check().ok());
  plan.available = 17 * kGib;  // nor would the rest fit
  EXPECT_THAT(std::string(plan.Check().message()), ::testing::Not(HasSubstr("threshold")));
}

TEST(MemoryPlanTest, ACacheThatIsFp8IsCalledSoAndNotAdvised) {
  MemoryPlan plan = Plan(17 * kGib + kGib / 2);
  plan.kv_type = CacheType::kFp8;
  EXPECT_THAT(plan.Table()[2], HasSubstr("in fp8_e4m3"));
  EXPECT_THAT(std::string(plan.Check().message()), ::testing::Not(HasSubstr("--kv-cache-dtype")));
}

TEST(MemoryPlanTest, WhereTheWeightsAloneAreTooMuchTheirFormatIsNamed) {
  const std::string message(Plan(10 * kGib).Check().message());
  EXPECT_THAT(message, HasSubstr("10.00 GiB are available"));
  EXPECT_THAT(message, HasSubstr("--dense-format=int8"));
}

TEST(FittingCacheBlocksTest, TakesWhatTheRestLeavesAndNoByteMore) {
  const DeviceMemory one{.weights = 900, .kv_cache = 30, .scratch = 60, .experts = 40};
  EXPECT_EQ(FittingCacheBlocks(one, 1000), 0) << "exactly the rest";
  EXPECT_EQ(FittingCacheBlocks(one, 500), 0);
  EXPECT_EQ(FittingCacheBlocks(one, 1029), 0);
  EXPECT_EQ(FittingCacheBlocks(one, 1030), 1);
  EXPECT_EQ(FittingCacheBlocks(one, 1030 + 59), 2);
  for (uint64_t available = 1000; available < 2000; available += 7) {
    MemoryPlan plan{.needs = one, .available = available, .gpu = true};
    plan.needs.kv_cache *= static_cast<uint64_t>(FittingCacheBlocks(one, available));
    EXPECT_TRUE(plan.Check().ok());
    plan.needs.kv_cache += one.kv_cache;
    EXPECT_FALSE(plan.Check().ok());
  }
}

}  // namespace
}  // namespace numoe
