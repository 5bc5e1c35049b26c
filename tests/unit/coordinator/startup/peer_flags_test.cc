// Command lines of other servers: flags that mean the same are taken, the others are answered with what to
// use.
#include "coordinator/startup/peer_flags.h"

#include "gmock/gmock.h"
#include "tests/unit/coordinator/startup/serving_command.h"

namespace numoe::startup {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string PeerRefusal(const std::string& flag) {
  ::testing::internal::CaptureStderr();
  const auto command = ReadServingWords({"--model", ".", "--workers", "a:1", flag, "4"});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(command.ok() && std::holds_alternative<int>(*command) && std::get<int>(*command) == 2) << flag;
  return said;
}

TEST(PeerFlagsTest, FlagsThatMeanTheSameAreTaken) {
  const ServingOptions options = ServingOptionsOf(
      {"--max-running-requests", "4", "--context-length=1000", "--chunked-prefill-size", "256",
       "--disable-radix-cache", "--enable-deterministic-inference", "--kt-max-deferred-experts-per-token=2",
       "--alias", "a,b", "--max-num-queued-reqs", "9"});
  EXPECT_EQ(options.capacity.sequences_max, 4);
  EXPECT_EQ(options.capacity.model_len_max, 1000);
  EXPECT_EQ(options.capacity.step_tokens, 256);
  EXPECT_FALSE(options.prefix_caching);
  EXPECT_TRUE(options.deterministic);
  EXPECT_EQ(options.deferred_experts, 2);
  EXPECT_THAT(options.served_model_names, ElementsAre("a", "b"));
  EXPECT_EQ(options.queue_max, 9);
  EXPECT_EQ(ServingOptionsOf({"--max_queued_requests", "8"}).queue_max, 8)
      << "underscores are read as dashes";
}

TEST(PeerFlagsTest, ParsersHaveTheirNamesInOtherServers) {
  const ServingOptions options =
      ServingOptionsOf({"--reasoning-parser", "deepseek_r1", "--tool-call-parser", "qwen25"});
  EXPECT_EQ(options.api.reasoning_parser, "think");
  EXPECT_EQ(options.api.tool_call_parser, "hermes");
  EXPECT_EQ(ServingOptionsOf({"--tool-call-parser", "kimi_k2"}).api.tool_call_parser, "kimi_k2");
}

TEST(PeerFlagsTest, AValueIsNotAFlag) {
  EXPECT_THAT(ServingOptionsOf({"--served-model-name", "max_num_seqs"}).served_model_names,
              ElementsAre("max_num_seqs"));
}

TEST(PeerFlagsTest, FlagsThatCannotMeanAnythingSayWhatToUse) {
  EXPECT_THAT(PeerRefusal("--tensor-parallel-size"),
              AllOf(HasSubstr("unknown flag --tensor-parallel-size: "), HasSubstr("--workers"),
                    HasSubstr("numoe-router")));
  EXPECT_THAT(PeerRefusal("-ngl"), AllOf(HasSubstr("unknown flag -ngl: "), HasSubstr("--num-gpu-experts")));
  EXPECT_THAT(PeerRefusal("-hf"), HasSubstr("unknown flag -hf: numoe-download downloads"));
  EXPECT_THAT(PeerRefusal("-hf=x"), HasSubstr("unknown flag -hf: numoe-download downloads"));
  EXPECT_THAT(PeerRefusal("-m"), HasSubstr("unknown flag -m: --model"));
  EXPECT_THAT(PeerRefusal("--gpu_memory_utilization"), HasSubstr("--gpu-memory takes"));
  EXPECT_THAT(PeerRefusal("--cpuinfer"), HasSubstr("each expert worker has --threads"));
  EXPECT_THAT(PeerRefusal("--enable-metrics"), HasSubstr("always on; leave it out"));
  EXPECT_THAT(PeerRefusal("--shutdown-timeout"), HasSubstr("--drain-timeout-ms takes milliseconds"));
  EXPECT_THAT(PeerRefusal("--otlp-traces-endpoint"), HasSubstr("--otlp-endpoint takes the URL"));
  EXPECT_THAT(PeerRefusal("-lv"), HasSubstr("unknown flag -lv: --log-level"));
  EXPECT_THAT(PeerRefusal("--max-num-seq"), HasSubstr("did you mean --max-num-seqs?"));
}

TEST(PeerFlagsTest, HelpListsTheAliases) {
  ::testing::internal::CaptureStdout();
  const auto command = ReadServingWords({"--help"});
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("--max-running-requests (--max-num-seqs)"));
  EXPECT_TRUE(command.ok() && std::get<int>(*command) == 0);
}

}  // namespace
}  // namespace numoe::startup
