// The memory that is computed before a slice is loaded is the memory that an executor takes when it loads it.
#include "expert_worker/startup/slice_needs.h"

#include "gmock/gmock.h"
#include "tests/unit/expert_worker/startup/worker_command.h"

namespace numoe::worker {
namespace {

constexpr const char* kTinyChat = "tests/golden/data/tiny-chat";

TEST(SliceNeedsTest, LoadingASliceTakesTheComputedMemory) {
  for (const std::string format : {"auto", "int8"}) {
    for (const int workers : {1, 2}) {
      const WorkerOptions options =
          OptionsOf({"--model", kTinyChat, "--worker-count", std::to_string(workers), "--format", format});
      const absl::StatusOr<SliceBytes> planned = PlanSliceBytes(options);
      ASSERT_TRUE(planned.ok()) << planned.status();
      EXPECT_EQ(planned->of_free_memory, planned->weights);
      uint64_t asked = 0;
      ExecutorOptions executor = options.executor;
      executor.ask_for_memory = [&](uint64_t bytes) {
        asked = bytes;
        return absl::OkStatus();
      };
      const auto checkpoint = Checkpoint::Open(kTinyChat);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      const auto loaded = ExpertExecutor::Load(**checkpoint, *ReadConfigOf(kTinyChat), executor);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(asked, planned->of_free_memory) << format << ", " << workers << " workers";
    }
  }
}

TEST(SliceNeedsTest, WeightsInReservedHugePagesTakeNoFreeMemory) {
  const auto planned = PlanSliceBytes(OptionsOf({"--model", kTinyChat, "--hugepages", "2M"}));
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_GT(planned->weights, 0u);
  EXPECT_EQ(planned->of_free_memory, 0u);
}

TEST(SliceNeedsTest, MailboxesFitTheLargestCallAndCountOnlyWithSharedMemory) {
  const absl::StatusOr<ModelConfig> config = ReadConfigOf(kTinyChat);
  ASSERT_TRUE(config.ok()) << config.status();
  const uint64_t mailbox = MailboxBytes(*config);
  ModelConfig wider = *config;
  wider.hidden_size *= 2;
  EXPECT_GT(MailboxBytes(wider), mailbox);
  const auto with = NeedsOf(OptionsOf({"--model", kTinyChat}), 1000);
  const auto without = NeedsOf(OptionsOf({"--model", kTinyChat, "--no-shared-memory"}), 1000);
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(with->mailbox_bytes, mailbox);
  EXPECT_EQ(without->mailbox_bytes, 0u);
  EXPECT_EQ(with->total() - without->total(), mailbox);
  EXPECT_EQ(with->weight_bytes, 1000u);
  EXPECT_FALSE(with->packed);
}

TEST(SliceNeedsTest, TheErrorNamesAMissingModel) {
  WorkerOptions options = OptionsOf({"--model", "."});
  options.model = "/nonexistent";  // as if it was deleted after the flags were read
  const absl::Status status = PlanSliceBytes(options).status();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace numoe::worker
