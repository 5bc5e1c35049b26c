// The plan's text and refusals, and what is planned for requests, models and devices of any size.
#include "coordinator/startup/capacity_plan.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::startup {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGib = 1ull << 30;

CapacityPlan Plan(uint64_t available) {
  return {.capacity = {.kv_blocks = 131'072 / execution::kKvBlockTokens},
          .needs = {.weights = 12 * kGib, .kv_cache = 8 * kGib, .scratch = 1 * kGib},
          .grammars = kGib / 2,
          .available = available,
          .step_tokens = 2048};
}

TEST(CapacityPlanTest, TheTableNamesEveryPartAndTheSum) {
  const std::vector<std::string> lines = Plan(30 * kGib).Table();
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[1], HasSubstr("12.00 GiB"));
  EXPECT_THAT(lines[2], HasSubstr("131072 tokens of 64.0 KiB in bf16"));
  EXPECT_THAT(lines[3], HasSubstr("activations of 2048 tokens"));
  EXPECT_THAT(lines[4], HasSubstr("512.0 MiB"));
  EXPECT_THAT(lines[5], HasSubstr("21.50 GiB  of 30.00 GiB available"));
}

TEST(CapacityPlanTest, WhatFitsExactlyFits) {
  EXPECT_TRUE(Plan(21 * kGib + kGib / 2).Check().ok());
  EXPECT_FALSE(Plan(21 * kGib + kGib / 2 - 1).Check().ok());
}

TEST(CapacityPlanTest, ARefusalNamesWhatWouldFit) {
  const absl::Status status = Plan(17 * kGib + kGib / 2).Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--max-total-tokens=65536 fits (now 131072)"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--kv-cache-dtype=fp8_e4m3"));
  CapacityPlan less = Plan(17 * kGib + kGib / 2);
  less.needs.kv_cache /= 2;
  less.capacity.kv_blocks /= 2;
  EXPECT_TRUE(less.Check().ok());
}

TEST(CapacityPlanTest, WhatOthersWillTakeIsNamed) {
  CapacityPlan plan = Plan(17 * kGib + kGib / 2);
  plan.others = "of 31.50 GiB that are free 14.00 GiB are reserved by numoe-expert-worker, process 7";
  EXPECT_THAT(plan.Table().back(), HasSubstr("of 17.50 GiB available (of 31.50 GiB that are free 14.00 GiB"));
  EXPECT_THAT(std::string(plan.Check().message()),
              HasSubstr("17.50 GiB are available to this process (of 31.50 GiB that are free 14.00 GiB are "
                        "reserved by numoe-expert-worker, process 7), but the model takes 21.50 GiB: "));
}

TEST(CapacityPlanTest, WindowsAreToldAndDoneWithoutWhereThatHelps) {
  CapacityPlan plan = Plan(30 * kGib);
  plan.capacity.window = 96;
  plan.needs.windows = 9 * kGib;
  EXPECT_THAT(plan.Table()[4], ::testing::AllOf(HasSubstr("9.00 GiB"), HasSubstr("two of 96 experts")));
  EXPECT_THAT(std::string(plan.Check().message()), HasSubstr("--gpu-prefill-token-threshold=off"));
  plan.available = 31 * kGib;
  EXPECT_TRUE(plan.Check().ok());
  plan.available = 17 * kGib;  // nor would the rest fit
  EXPECT_THAT(std::string(plan.Check().message()), ::testing::Not(HasSubstr("threshold")));
}

TEST(CapacityPlanTest, ACacheThatIsFp8IsCalledSoAndNotAdvised) {
  CapacityPlan plan = Plan(17 * kGib + kGib / 2);
  plan.kv_type = execution::CacheType::kFp8;
  EXPECT_THAT(plan.Table()[2], HasSubstr("in fp8_e4m3"));
  EXPECT_THAT(std::string(plan.Check().message()), ::testing::Not(HasSubstr("--kv-cache-dtype")));
}

TEST(CapacityPlanTest, WhereTheWeightsAloneAreTooMuchTheirFormatIsNamed) {
  const std::string message(Plan(10 * kGib).Check().message());
  EXPECT_THAT(message, HasSubstr("10.00 GiB are available"));
  EXPECT_THAT(message, HasSubstr("--dense-format=int8"));
}

TEST(FittingCacheBlocksTest, TakesWhatTheRestLeavesAndNoByteMore) {
  const execution::DeviceMemory one{.weights = 900, .kv_cache = 30, .scratch = 60, .experts = 40};
  EXPECT_EQ(FittingCacheBlocks(one, 1000), 0) << "exactly the rest";
  EXPECT_EQ(FittingCacheBlocks(one, 500), 0);
  EXPECT_EQ(FittingCacheBlocks(one, 1029), 0);
  EXPECT_EQ(FittingCacheBlocks(one, 1030), 1);
  EXPECT_EQ(FittingCacheBlocks(one, 1030 + 59), 2);
  for (uint64_t available = 1000; available < 2000; available += 7) {
    CapacityPlan plan{.needs = one, .available = available, .gpu = true};
    plan.needs.kv_cache *= static_cast<uint64_t>(FittingCacheBlocks(one, available));
    EXPECT_TRUE(plan.Check().ok());
    plan.needs.kv_cache += one.kv_cache;
    EXPECT_FALSE(plan.Check().ok());
  }
}

// A device whose needs are as simple as a model's: a fixed size for each layer of experts, each block and
// each row of a block table.
struct SimpleDevice {
  uint64_t weights = 0, block = 1, expert = 1, scratch_per_token = 0;

  execution::DeviceMemory Needs(const CapacityRequest& request, const Capacity& capacity) const {
    return {.weights = weights,
            .kv_cache = block * static_cast<uint64_t>(capacity.kv_blocks),
            .scratch = scratch_per_token * static_cast<uint64_t>(request.step_tokens) +
                       8 * static_cast<uint64_t>(execution::KvBlocksFor(capacity.model_len)),
            .experts = expert * static_cast<uint64_t>(capacity.gpu_experts),
            .windows = 2 * expert * static_cast<uint64_t>(capacity.window)};
  }
  CapacityPlan Plan(const CapacityRequest& request, const ModelConfig& config, const DeviceRoom& room) const {
    const absl::StatusOr<CapacityPlan> plan = PlanCapacity(
        request, config, room,
        [&](const Capacity& c) -> absl::StatusOr<execution::DeviceMemory> { return Needs(request, c); });
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.value_or(CapacityPlan{});
  }
};

ModelConfig ConfigOf(int64_t positions, int experts) {
  ModelConfig config;
  config.max_position_embeddings = positions;
  config.num_experts = experts;
  return config;
}

TEST(PlanCapacityTest, OnACpuTheFlagsSayTheCache) {
  const SimpleDevice device;
  const ModelConfig config = ConfigOf(100'000, 8);
  const CapacityPlan usual = device.Plan({.sequences_max = 3}, config, {});
  EXPECT_EQ(usual.kv_tokens(), 3 * 4096);
  EXPECT_EQ(usual.capacity.model_len, 3 * 4096) << "no sequence is longer than the whole cache";
  EXPECT_GT(usual.grammars, 0u);
  const CapacityPlan short_model = device.Plan({.sequences_max = 3}, ConfigOf(1000, 8), {});
  EXPECT_EQ(short_model.capacity, (Capacity{.model_len = 1000, .kv_blocks = 188}));
  const CapacityPlan told = device.Plan({.model_len_max = 50, .kv_tokens = 1001}, config, {});
  EXPECT_EQ(told.capacity, (Capacity{.model_len = 50, .kv_blocks = 63})) << "whole blocks";
  EXPECT_EQ(device.Plan({.gpu_experts = std::nullopt}, config, {}).capacity.gpu_experts, 0)
      << "as many as fit on no GPU";
}

TEST(PlanCapacityTest, OnAGpuTheCacheTakesWhatTheRestLeavesAndNoBlockMore) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int refused = 0, filled = 0, useful = 0;
  for (int round = 0; round < 2000; ++round) {
    const SimpleDevice device{.weights = static_cast<uint64_t>(below(50'000)),
                              .block = static_cast<uint64_t>(1 + below(300)),
                              .expert = static_cast<uint64_t>(1 + below(900)),
                              .scratch_per_token = static_cast<uint64_t>(below(20))};
    const ModelConfig config = ConfigOf(1 + below(9000), below(40));
    CapacityRequest request{.sequences_max = 1 + below(20), .step_tokens = 20 + below(500)};
    if (below(2) > 0) request.model_len_max = 1 + below(9000);
    if (below(3) > 0) request.gpu_experts = std::nullopt;
    const DeviceRoom room{.gpu = true, .available = static_cast<uint64_t>(below(200'000))};
    const CapacityPlan plan = device.Plan(request, config, room);
    const int64_t longest = std::min(request.model_len_max > 0 ? request.model_len_max : INT64_MAX,
                                     config.max_position_embeddings);
    EXPECT_EQ(plan.capacity.model_len, std::min(longest, plan.kv_tokens()));
    EXPECT_LE(plan.capacity.gpu_experts, config.num_experts);
    EXPECT_EQ(plan.grammars, 0u) << "they are in the host's memory";
    const std::string table = plan.Table().back();
    EXPECT_THAT(table, HasSubstr("total"));
    if (!plan.Check().ok()) {
      ++refused;
      EXPECT_THAT(std::string(plan.Check().message()), HasSubstr("are available on the GPU"));
      // Not even a cache of one block would have fitted.
      Capacity smallest = plan.capacity;
      smallest.kv_blocks = 1;
      smallest.model_len = longest;
      EXPECT_GT(device.Needs(request, smallest).total(), room.available);
      continue;
    }
    if (plan.capacity.kv_blocks == request.sequences_max * execution::KvBlocksFor(longest)) {
      ++useful;  // no sequence could use more
      continue;
    }
    ++filled;
    Capacity larger = plan.capacity;
    larger.kv_blocks += 1;
    larger.model_len = longest;
    EXPECT_GT(device.Needs(request, larger).total(), room.available);
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(filled, 50);
  EXPECT_GT(useful, 50);
}

TEST(PlanCapacityTest, ExpertsThatAreToBeAsManyAsFitLeaveTheUsualCacheItsRoom) {
  const SimpleDevice device{.weights = 1000, .block = 10, .expert = 100};
  const CapacityRequest request{.sequences_max = 1, .gpu_experts = std::nullopt};
  const ModelConfig config = ConfigOf(16 * 16, 64);  // a sequence takes 16 blocks
  const uint64_t rest = 1000 + 16 * 10 + 16 * 8;
  EXPECT_EQ(device.Plan(request, config, {.gpu = true, .available = rest + 399}).capacity.gpu_experts, 3);
  EXPECT_EQ(device.Plan(request, config, {.gpu = true, .available = rest + 400}).capacity.gpu_experts, 4);
  EXPECT_EQ(device.Plan(request, config, {.gpu = true, .available = rest - 1}).capacity.gpu_experts, 0);
  EXPECT_EQ(device.Plan(request, config, {.gpu = true, .available = 1 << 30}).capacity.gpu_experts, 64);
}

TEST(PlanCapacityTest, ExpertsThatAreAskedForAreTakenOrRefusedByName) {
  const SimpleDevice device{.weights = 1000, .block = 10, .expert = 100};
  const ModelConfig config = ConfigOf(256, 8);
  EXPECT_EQ(
      device.Plan({.gpu_experts = 20}, config, {.gpu = true, .available = 1 << 20}).capacity.gpu_experts, 8)
      << "the model has no more";
  const CapacityPlan plan = device.Plan({.gpu_experts = 5}, config, {.gpu = true, .available = 1400});
  EXPECT_EQ(plan.capacity.gpu_experts, 5);
  EXPECT_THAT(std::string(plan.Check().message()),
              HasSubstr("lower --num-gpu-experts (now 5) or make it auto"));
}

TEST(PlanCapacityTest, AWindowIsTheLargestPartOfALayerThatFits) {
  const SimpleDevice device{.weights = 1000, .block = 1, .expert = 100};
  const ModelConfig config = ConfigOf(16, 20);
  const CapacityRequest request{.sequences_max = 1, .kv_tokens = 16, .gpu_prefill = Measured{}};
  const uint64_t rest = 1000 + 1 + 8;
  const auto window = [&](uint64_t available) {
    return device.Plan(request, config, {.gpu = true, .available = available}).capacity.window;
  };
  EXPECT_EQ(window(rest + 2 * 20 * 100), 20);
  EXPECT_EQ(window(rest + 2 * 20 * 100 - 1), 10);
  EXPECT_EQ(window(rest + 2 * 10 * 100 - 1), 5);
  EXPECT_EQ(window(rest + 2 * 5 * 100 - 1), 3);
  EXPECT_EQ(window(rest), 3) << "which Check then says does not fit";
  EXPECT_EQ(device.Plan({.sequences_max = 1}, config, {.gpu = true, .available = 1 << 20}).capacity.window,
            0);
}

TEST(PlanCapacityTest, WhatCannotBeMeasuredIsNotPlanned) {
  const absl::Status broken = absl::InvalidArgumentError("a tensor is missing");
  const auto plan =
      PlanCapacity({}, ConfigOf(100, 0), {},
                   [&](const Capacity&) -> absl::StatusOr<execution::DeviceMemory> { return broken; });
  EXPECT_EQ(plan.status(), broken);
}

}  // namespace
}  // namespace numoe::startup
