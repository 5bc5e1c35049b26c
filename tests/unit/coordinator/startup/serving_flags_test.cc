// Flags that change nothing beside the others: refused with a reason on the command line, and noted for the
// log where the environment sets them.
#include "coordinator/startup/serving_flags.h"

#include "gmock/gmock.h"
#include "tests/support/scoped_variable.h"
#include "tests/unit/coordinator/startup/serving_command.h"

namespace numoe::startup {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string UnusedRefusal(std::vector<std::string> words, const std::string& workers = "a:1") {
  words.insert(words.begin(), {"--model", "tests/golden/data/tiny-chat", "--workers", workers});
  const absl::StatusOr<ServingCommand> command = ReadServingWords(std::move(words));
  EXPECT_TRUE(absl::IsInvalidArgument(command.status())) << command.status();
  return std::string(command.status().message());
}

TEST(ServingFlagsTest, AFlagThatNeedsAnotherIsRefusedWithoutIt) {
  EXPECT_THAT(UnusedRefusal({"--trace-ratio", "0.5"}),
              AllOf(HasSubstr("--trace-ratio does nothing without --otlp-endpoint"),
                    HasSubstr("leave the flag out")));
  EXPECT_THAT(UnusedRefusal({"--max-requests-per-key", "3"}), HasSubstr("does nothing without API keys"));
  EXPECT_THAT(UnusedRefusal({"--share-prefix-cache"}),
              HasSubstr("--share-prefix-cache does nothing without API keys"));
  EXPECT_THAT(UnusedRefusal({"--expert-heat-file", "/x"}),
              AllOf(HasSubstr("--expert-heat-file does nothing with --num-gpu-experts=0"),
                    HasSubstr("--num-gpu-experts=auto")));
}

TEST(ServingFlagsTest, AFlagWithWhatItNeedsIsTaken) {
  EXPECT_EQ(ServingOptionsOf({"--trace-ratio", "0.5", "--otlp-endpoint", "http://a:4318"}).trace_ratio, 0.5);
  EXPECT_TRUE(ServingOptionsOf({"--share-prefix-cache", "--api-key", "k"}).share_prefix_cache);
  EXPECT_TRUE(ServingOptionsOf({"--api-key", "k", "--max-requests-per-key", "3"}).notes.empty());
  EXPECT_EQ(ServingOptionsOf({"--expert-heat-file", "/x", "--num-gpu-experts", "auto"}).expert_heat_file,
            "/x");
}

TEST(ServingFlagsTest, WhatDeterministicStepsNeverDoIsRefused) {
  EXPECT_THAT(UnusedRefusal({"--deterministic", "--decode-stretch-max", "3"}),
              HasSubstr("--decode-stretch-max does nothing with --deterministic"));
  const std::vector<std::string> defers = {"--deterministic", "--max-deferred-experts-per-token", "1",
                                           "--two-batch-overlap"};
  const auto overlap = [&defers](const std::string& word) {
    std::vector<std::string> words = defers;
    words.push_back(word);
    return words;
  };
  EXPECT_THAT(UnusedRefusal(overlap("64")),
              HasSubstr("--two-batch-overlap does nothing with --deterministic"));
  for (const std::string word : {"auto", "off"})
    EXPECT_TRUE(ServingOptionsOf(overlap(word)).deterministic) << word;
}

TEST(ServingFlagsTest, WhatOnlyWorkersAtPortsUseIsRefusedForSockets) {
  const std::vector<std::string> tls = {"--worker-ssl-certfile", "c", "--worker-ssl-keyfile", "k",
                                        "--worker-ssl-ca-certs", "ca"};
  EXPECT_THAT(UnusedRefusal(tls, "unix:/a,unix:/b"),
              HasSubstr("--worker-ssl-certfile does nothing if all --workers are at unix:PATH"));
  EXPECT_EQ(ServingOptionsOf(tls, "unix:/a,host:7070").workers.tls.certificate, "c");
  const std::vector<std::string> grpc = {"--data-path", "grpc", "--shared-memory-group", "0"};
  EXPECT_THAT(UnusedRefusal(grpc), HasSubstr("--shared-memory-group does nothing with --data-path=grpc"));
  EXPECT_EQ(ServingOptionsOf(grpc, "unix:/a,host:7070").workers.shared_memory_group, 0u)
      << "the owner of the socket is checked";
}

TEST(ServingFlagsTest, TheEnvironmentIsNotRefused) {
  const ScopedVariable ratio("NUMOE_TRACE_RATIO", "0.5"), isa("NUMOE_ISA", "scalar");
  const ServingOptions options = ServingOptionsOf({"--device=cpu", "--max_num_seqs", "2"});
  EXPECT_THAT(options.notes, ElementsAre(HasSubstr("--trace-ratio, which the environment")));
  EXPECT_THAT(options.typed, AllOf(Contains("device"), Contains("max-num-seqs"), Contains("workers")));
  EXPECT_EQ(options.typed.count("isa") + options.typed.count("trace-ratio"), 0u);
  EXPECT_TRUE(options.device.isa_chosen);
  EXPECT_THAT(ServingOptionsOf({"--otlp-endpoint", "http://a:4318"}).notes, IsEmpty());
}

TEST(ServingFlagsTest, SocketsAreToldFromPorts) {
  EXPECT_TRUE(IsUnixAddress("unix:/a"));
  EXPECT_FALSE(IsUnixAddress("host:7070"));
  EXPECT_FALSE(IsUnixAddress(""));
}

}  // namespace
}  // namespace numoe::startup
