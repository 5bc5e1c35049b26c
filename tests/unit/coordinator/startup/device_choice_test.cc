// Which device flags choose, on a machine that may have none, and what it has room for.
#include "coordinator/startup/device_choice.h"

#include "coordinator/startup/measured_plan.h"
#include "gmock/gmock.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/scoped_variable.h"
#include "tests/unit/coordinator/startup/serving_command.h"

namespace numoe::startup {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string NoDeviceFor(std::vector<std::string> words) {
  const auto choice = DeviceChoice::Make(ServingOptionsOf(std::move(words)));
  EXPECT_TRUE(absl::IsFailedPrecondition(choice.status())) << choice.status();
  return std::string(choice.status().message());
}

TEST(DeviceChoiceTest, ACpuHasTheHostsRoom) {
  auto choice = DeviceChoice::Make(ServingOptionsOf({"--device", "cpu", "--threads", "2"}));
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_FALSE(choice->gpu());
  EXPECT_EQ(choice->room().available, 0u);
  const auto device = choice->Create(1000, /*measure_only=*/true);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_THAT((*device)->Describe(), HasSubstr("2 threads"));
}

TEST(DeviceChoiceTest, WhatOnlyAGpuDoesIsRefusedWithoutOne) {
  EXPECT_THAT(NoDeviceFor({"--device", "cpu", "--num-gpu-experts", "8"}),
              AllOf(HasSubstr("--num-gpu-experts=8 needs a GPU"), HasSubstr("--device=cpu")));
  EXPECT_THAT(NoDeviceFor({"--device", "cpu", "--gpu-prefill-token-threshold", "auto"}),
              HasSubstr("--gpu-prefill-token-threshold=auto needs a GPU"));
  EXPECT_THAT(NoDeviceFor({"--device", "cpu", "--gpu-memory", "10GiB"}),
              HasSubstr("--gpu-memory=10GiB needs a GPU"));
  EXPECT_THAT(NoDeviceFor({"--device", "cpu", "--num-gpu-experts", "auto", "--expert-heat-file", "/x"}),
              HasSubstr("--expert-heat-file=/x needs a GPU"));
  for (const char* const experts : {"0", "auto"})
    EXPECT_TRUE(DeviceChoice::Make(ServingOptionsOf({"--device", "cpu", "--num-gpu-experts", experts})).ok());
}

TEST(DeviceChoiceTest, WhatOnlyTheCpuDoesIsRefusedWithAGpu) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--threads", "2"}, "--threads=2"},
      {{"--isa", "scalar"}, "--isa=scalar"},
      {{"--activations", "bf16"}, "--activations=bf16"},
      {{"--dense-format", "int8"}, "--dense-format=int8"},
      {{"--memory-reservations", "/x"}, "--memory-reservations=/x"}};
  for (const auto& [flag, said] : cases) {
    std::vector<std::string> words = {"--plan", "--gpu-memory", "10GiB"};
    words.insert(words.end(), flag.begin(), flag.end());
    EXPECT_TRUE(DeviceChoice::Make(ServingOptionsOf(words)).ok()) << "auto: for machines without a GPU, too";
    words.insert(words.end(), {"--device", "cuda"});
    EXPECT_THAT(NoDeviceFor(words), HasSubstr(said + " changes nothing on a GPU"));
  }
}

TEST(DeviceChoiceTest, WhatOtherDaemonsMayNeedIsRefusedOnTheCommandLineOnly) {
  const ScopedVariable threads("NUMOE_THREADS", "2"), isa("NUMOE_ISA", "scalar"),
      format("NUMOE_DENSE_FORMAT", "int8"), memory("NUMOE_GPU_MEMORY", "10GiB");
  EXPECT_TRUE(DeviceChoice::Make(ServingOptionsOf({"--plan", "--device", "cuda"})).ok());
  EXPECT_TRUE(DeviceChoice::Make(ServingOptionsOf({"--device", "cpu"})).ok());
  EXPECT_THAT(NoDeviceFor({"--plan", "--device", "cuda", "--threads", "3"}), HasSubstr("--threads=3"));
}

TEST(DeviceChoiceTest, APlanIsForACardThatNeedNotBeHere) {
  auto choice = DeviceChoice::Make(ServingOptionsOf({"--plan", "--device", "cuda", "--gpu-memory", "10GiB"}));
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_TRUE(choice->gpu());
  EXPECT_LT(choice->room().available, uint64_t{10} << 30) << "the driver has its part";
  EXPECT_GT(choice->room().available, uint64_t{8} << 30);
  EXPECT_EQ(DeviceChoice::Make(ServingOptionsOf({"--plan", "--gpu-memory", "1GiB"}))->room().available, 0u)
      << "the driver takes all of it";
}

TEST(PlanServingTest, SaysWhatAModelTakesOfThisHostOrOfACard) {
  const TemporaryFolder folder;
  const std::string reservations = (folder.path() / "reservations").string();
  const auto host = PlanServing(ServingOptionsOf(
      {"--plan", "--device", "cpu", "--memory-reservations", reservations, "--max-total-tokens", "1000"}));
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_TRUE(host->Check().ok()) << host->Check();
  EXPECT_EQ(host->kv_tokens(), 1008);
  EXPECT_GT(host->needs.weights, 0u);
  const auto card = PlanServing(ServingOptionsOf({"--plan", "--gpu-memory", "4GiB", "--num-gpu-experts",
                                                  "auto", "--gpu-prefill-token-threshold", "auto"}));
  ASSERT_TRUE(card.ok()) << card.status();
  EXPECT_TRUE(card->Check().ok()) << card->Check();
  EXPECT_TRUE(card->gpu);
  EXPECT_GT(card->capacity.gpu_experts, 0);
  EXPECT_GT(card->needs.experts, 0u);
  EXPECT_GT(card->needs.windows, 0u);
  const auto small = PlanServing(ServingOptionsOf({"--plan", "--gpu-memory", "1GiB"}));
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_TRUE(absl::IsResourceExhausted(small->Check())) << small->Check();
}

}  // namespace
}  // namespace numoe::startup
