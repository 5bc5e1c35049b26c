// What follows from the options for model and engine.
#include "coordinator/startup/part_options.h"

#include "coordinator/engine/scheduler/scheduler_limits.h"
#include "coordinator/execution/model/step_overlap.h"
#include "gmock/gmock.h"
#include "tests/unit/coordinator/startup/serving_command.h"

namespace numoe::startup {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

int OverlapOf(const std::string& word, const std::string& workers, bool gpu) {
  return OverlapTokens(ServingOptionsOf({"--two-batch-overlap", word}, workers), gpu);
}

TEST(OverlapTokensTest, IsTriedWhereTheDevicesTimeIsNotTheWorkers) {
  EXPECT_EQ(OverlapOf("auto", "unix:/a", false), execution::kNoOverlap);
  EXPECT_EQ(OverlapOf("auto", "unix:/a,host:1", false), execution::kMeasuredOverlap);
  EXPECT_EQ(OverlapOf("auto", "unix:/a", true), execution::kMeasuredOverlap);
}

TEST(OverlapTokensTest, AChoiceIsAChoice) {
  for (const bool gpu : {false, true}) {
    EXPECT_EQ(OverlapOf("off", "host:1", gpu), execution::kNoOverlap);
    EXPECT_EQ(OverlapOf("64", "unix:/a", gpu), 64);
  }
}

TEST(ModelOptionsForTest, FewerExpertsAreDeferredThanThereAre) {
  ModelConfig config;
  config.experts_per_token = 4;
  const auto with = [&](const char* deferred) {
    return ModelOptionsFor(ServingOptionsOf({"--max-deferred-experts-per-token", deferred}), config);
  };
  ASSERT_TRUE(with("3").ok());
  EXPECT_EQ(with("3")->deferred_experts, 3);
  EXPECT_THAT(std::string(with("4").status().message()),
              AllOf(HasSubstr("--max-deferred-experts-per-token=4"), HasSubstr("expected 0 to 3")));
  config.experts_per_token = 0;  // a dense model
  EXPECT_TRUE(with("0").ok());
  EXPECT_THAT(std::string(with("1").status().message()), HasSubstr("expected 0 to 0"));
}

TEST(ModelOptionsForTest, EverySequenceHasARowOfLogitsAndPromptsHaveTheirs) {
  const auto options = ModelOptionsFor(
      ServingOptionsOf({"--max-num-seqs", "7", "--kv-cache-dtype", "fp8_e4m3", "--deterministic"}), {});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->logit_rows_max, 7 + limits::kPromptLogitRowsMax);
  EXPECT_EQ(options->kv_cache_type, execution::CacheType::kFp8);
  EXPECT_EQ(options->kv_block_tokens, execution::kKvBlockTokens);
  EXPECT_TRUE(options->defer_always);
}

TEST(EngineOptionsForTest, ADeterministicChunkFitsBesideAllOtherSequences) {
  const auto chunk = [](std::vector<std::string> words) {
    return EngineOptionsFor(ServingOptionsOf(std::move(words)), {}, 10, {}).limits.fixed_chunk_tokens;
  };
  EXPECT_EQ(chunk({}), 0);
  EXPECT_EQ(chunk({"--deterministic"}), 128);
  EXPECT_EQ(chunk({"--deterministic", "--max-num-seqs", "8", "--max-num-batched-tokens", "20"}), 13);
  EXPECT_EQ(chunk({"--deterministic", "--max-num-seqs", "8", "--max-num-batched-tokens", "8"}), 1);
}

TEST(EngineOptionsForTest, TheEngineHasTheBlocksThatArePlanned) {
  const engine::EngineOptions options =
      EngineOptionsFor(ServingOptionsOf({"--disable-prefix-caching", "--max-queued-requests", "3"}),
                       {.model_len = 100, .kv_blocks = 7}, 11, {5});
  EXPECT_EQ(options.kv_blocks, 7);
  EXPECT_EQ(options.limits.block_tokens, execution::kKvBlockTokens);
  EXPECT_EQ(options.max_model_len, 100);
  EXPECT_EQ(options.vocab, 11);
  EXPECT_EQ(options.queue_max, 3);
  EXPECT_FALSE(options.prefix_caching);
}

}  // namespace
}  // namespace numoe::startup
