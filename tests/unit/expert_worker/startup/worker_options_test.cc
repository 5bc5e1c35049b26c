// The text of each flag becomes its value, and an error for a wrong or useless flag names the flag.
#include "expert_worker/startup/worker_options.h"

#include <unistd.h>

#include "gmock/gmock.h"
#include "tests/support/scoped_variable.h"
#include "tests/unit/expert_worker/startup/worker_command.h"

namespace numoe::worker {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns the error for these words.
std::string RefusalOf(std::vector<std::string> words) {
  words.insert(words.begin(), {"--model", "."});
  const absl::StatusOr<WorkerCommand> command = ReadWords(std::move(words));
  EXPECT_TRUE(absl::IsInvalidArgument(command.status())) << command.status();
  return std::string(command.status().message());
}

TEST(WorkerOptionsTest, AModelIsEnough) {
  const WorkerOptions options = OptionsOf({"--model", "."});
  EXPECT_EQ(options.model, ".");
  EXPECT_EQ(options.metrics_port, 9090);
  EXPECT_EQ(options.drain_timeout, milliseconds(40'000));
  EXPECT_TRUE(options.shared_memory);
  EXPECT_FALSE(options.fleet || options.health_listen || options.shared_memory_group || options.preflight);
  EXPECT_FALSE(options.pinning_required || options.executor.local_required || options.executor.memory.shared);
  EXPECT_EQ(options.executor.slice, SliceSpec{});
  EXPECT_EQ(options.executor.format, std::nullopt);
  EXPECT_EQ(options.executor.isa, *SelectIsa(std::nullopt)) << "the instruction set that is used";
  EXPECT_EQ(options.executor.precision, Precision::kFast);
  EXPECT_TRUE(options.executor.map_packed);
  EXPECT_FALSE(options.packed_given);
  EXPECT_EQ(options.executor.memory.pages, HugePages::kTransparent);
}

TEST(WorkerOptionsTest, TheErrorNamesAMissingModel) {
  EXPECT_THAT(std::string(ReadWords({"--model", "/nonexistent"}).status().message()),
              HasSubstr("--model=/nonexistent: there is no such folder or file here"));
}

TEST(WorkerOptionsTest, TheTextOfFlagsBecomesValues) {
  const WorkerOptions options = OptionsOf({"--model",
                                           ".",
                                           "--slice",
                                           "expert",
                                           "--packed",
                                           "copy",
                                           "--listen",
                                           "unix:/x",
                                           "--hugepages",
                                           "2M",
                                           "--pinning",
                                           "required",
                                           "--worker-index",
                                           "3",
                                           "--worker-count",
                                           "4",
                                           "--health-listen",
                                           "127.0.0.1:0",
                                           "--no-shared-memory",
                                           "--shared-memory-group",
                                           std::to_string(getgid()),
                                           "--drain-timeout-ms",
                                           "7",
                                           "--isa",
                                           "scalar",
                                           "--format",
                                           "int8",
                                           "--activations",
                                           "fp32"});
  EXPECT_EQ(options.executor.slice,
            (SliceSpec{.mode = SliceMode::kExpert, .worker_index = 3, .worker_count = 4}));
  EXPECT_EQ(options.executor.format, WeightFormat::kInt8);
  EXPECT_EQ(options.executor.isa, Isa::kScalar);
  EXPECT_EQ(options.executor.precision, Precision::kFloat);
  EXPECT_FALSE(options.executor.map_packed);
  EXPECT_TRUE(options.packed_given);
  EXPECT_EQ(options.executor.memory.pages, HugePages::k2M);
  EXPECT_TRUE(options.pinning_required && options.executor.local_required && options.executor.alone);
  EXPECT_EQ(options.metrics_port, 9093) << "9090 plus the index";
  EXPECT_EQ(options.health_listen, "127.0.0.1:0");
  EXPECT_FALSE(options.shared_memory);
  EXPECT_EQ(options.shared_memory_group, getgid());
  EXPECT_EQ(options.drain_timeout, milliseconds(7));
}

TEST(WorkerOptionsTest, AGivenMetricsPortIsUsed) {
  EXPECT_EQ(OptionsOf({"--model", ".", "--metrics-port", "0", "--worker-index", "3"}).metrics_port, 0);
  EXPECT_EQ(OptionsOf({"--model", ".", "--supervise", "--worker-index", "3"}).metrics_port, 9090)
      << "a supervisor counts the ports up itself";
}

TEST(WorkerOptionsTest, FlagsDescribeTheFleetOfASupervisor) {
  const WorkerOptions alone = OptionsOf({"--model", ".", "--supervise"});
  ASSERT_TRUE(alone.fleet.has_value());
  EXPECT_EQ(alone.fleet->worker_count, 0) << "the number of workers that it starts";
  EXPECT_FALSE(alone.fleet->per_package);
  const WorkerOptions told =
      OptionsOf({"--model", ".", "--supervise", "--worker-per", "package", "--worker-count", "1",
                 "--hung-after-ms", "5", "--load-stalled-after-ms", "6"});
  EXPECT_EQ(told.fleet->worker_count, 1) << "a number that is the same as the default counts if it is given";
  EXPECT_TRUE(told.fleet->per_package);
  EXPECT_EQ(told.fleet->hung_after, milliseconds(5));
  EXPECT_EQ(told.fleet->load_stalled_after, milliseconds(6));
}

TEST(WorkerOptionsTest, FlagsForASupervisorAreRefusedWithoutOne) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--worker-per", "package"},
                                                {"--hung-after-ms", "5"},
                                                {"--load-stalled-after-ms=6"},
                                                {"--supervise=false", "--worker-per=node"}}) {
    EXPECT_THAT(RefusalOf(words), HasSubstr(" does nothing without --supervise; add --supervise, or leave"));
  }
  const ScopedVariable per("NUMOE_WORKER_PER", "package"), hung("NUMOE_HUNG_AFTER_MS", "5");
  EXPECT_THAT(OptionsOf({"--model", "."}).notes, ElementsAre(HasSubstr("--worker-per, which the environment"),
                                                             HasSubstr("--hung-after-ms, which")));
  EXPECT_THAT(OptionsOf({"--model", ".", "--supervise"}).notes, IsEmpty());
  EXPECT_THAT(OptionsOf({"--model", ".", "--supervise=false"}).notes, IsEmpty())
      << "a supervisor starts its workers with this flag";
}

TEST(WorkerOptionsTest, AGroupWithoutAnythingToGuardIsRefused) {
  const std::string group = std::to_string(getgid());
  EXPECT_THAT(RefusalOf({"--no-shared-memory", "--shared-memory-group", group}),
              HasSubstr("--shared-memory-group does nothing with --no-shared-memory"));
  EXPECT_EQ(OptionsOf({"--model", ".", "--shared-memory-group", group}).shared_memory_group, getgid());
}

TEST(WorkerOptionsTest, AProbeTakesNoOtherFlags) {
  const auto other = ReadWords({"--probe", "unix:/x", "--ssl-certfile", "c"});
  EXPECT_TRUE(absl::IsInvalidArgument(other.status())) << other.status();
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("--ssl-certfile does nothing with --probe"));
  const ScopedVariable group("NUMOE_SHARED_MEMORY_GROUP", "no-such-group");
  const auto command = ReadWords({"--probe", "unix:/x"});
  ASSERT_TRUE(command.ok()) << command.status();
  ASSERT_TRUE(std::holds_alternative<ProbeRequest>(*command));
  EXPECT_EQ(std::get<ProbeRequest>(*command).address, "unix:/x");
}

TEST(WorkerOptionsTest, PreflightNeedsNoModel) {
  EXPECT_TRUE(OptionsOf({"--preflight"}).preflight);
  EXPECT_THAT(std::string(ReadWords({}).status().message()), HasSubstr("--model is required"));
}

TEST(WorkerOptionsTest, AfterTheParserHasPrintedOnlyAnExitCodeIsReturned) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const auto version = ReadWords({"--version"}), wrong = ReadWords({"--slice", "layer"});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("--slice=layer"), HasSubstr("intermediate")));
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("numoe-expert-worker"));
  ASSERT_TRUE(version.ok() && wrong.ok());
  EXPECT_EQ(std::get<int>(*version), 0);
  EXPECT_EQ(std::get<int>(*wrong), 2);
}

TEST(WorkerOptionsTest, UnknownValuesAreRefused) {
  EXPECT_THAT(RefusalOf({"--isa", "neon"}),
              AllOf(HasSubstr("--isa: "), HasSubstr("neon"), HasSubstr("avx512")));
  EXPECT_THAT(RefusalOf({"--activations", "fp16"}),
              AllOf(HasSubstr("--activations: "), HasSubstr("fp16"), HasSubstr("bf16")));
  EXPECT_THAT(RefusalOf({"--format", "int3"}),
              AllOf(HasSubstr("--format: "), HasSubstr("int3"), HasSubstr("int8")));
  EXPECT_THAT(RefusalOf({"--shared-memory-group", "no-such-group"}),
              HasSubstr("--shared-memory-group=no-such-group"));
}

TEST(WorkerOptionsTest, ContradictoryFlagsAreRefused) {
  EXPECT_THAT(RefusalOf({"--share-experts", "--no-shared-memory"}),
              HasSubstr("--share-experts with --no-shared-memory"));
  EXPECT_THAT(RefusalOf({"--supervise", "--numa-nodes", "0"}), HasSubstr("--numa-nodes with --supervise"));
  EXPECT_THAT(RefusalOf({"--ssl-certfile", "c"}), HasSubstr("--ssl-certfile without --ssl-keyfile"));
  EXPECT_THAT(
      RefusalOf({"--listen", "unix:/x", "--ssl-certfile", "c", "--ssl-keyfile", "k", "--ssl-ca-certs", "a"}),
      AllOf(HasSubstr("--listen=unix:/x"), HasSubstr("expected --listen HOST:PORT")));
}

}  // namespace
}  // namespace numoe::worker
