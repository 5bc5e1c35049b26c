// Flags of other programs on the worker's command line: those that mean the same are accepted, and errors for
// the others say what to use.
#include "expert_worker/startup/peer_flags.h"

#include "gmock/gmock.h"
#include "tests/unit/expert_worker/startup/worker_command.h"

namespace numoe::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Returns the error that the worker prints for the flag.
std::string AnswerTo(const std::string& flag) {
  ::testing::internal::CaptureStderr();
  const auto command = ReadWords({"--model", ".", flag, "4"});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(command.ok() && std::holds_alternative<int>(*command) && std::get<int>(*command) == 2) << flag;
  return said;
}

TEST(PeerFlagsTest, FlagsThatMeanTheSameAreAccepted) {
  EXPECT_EQ(OptionsOf({"-m", ".", "-t", "3"}).executor.threads, 3);
  EXPECT_EQ(OptionsOf({"--model-path=."}).model, ".");
  for (const std::string flag : {"--cpuinfer", "--cpu_infer", "--kt-cpuinfer", "--threads"})
    EXPECT_EQ(OptionsOf({"--model", ".", flag, "4"}).executor.threads, 4) << flag;
}

TEST(PeerFlagsTest, ASupervisorRefusesTheNumberOfThreadsOnAllNodes) {
  const auto command = ReadWords({"--model", ".", "--supervise", "--cpu_infer", "64"});
  EXPECT_TRUE(absl::IsInvalidArgument(command.status()));
  EXPECT_THAT(std::string(command.status().message()),
              AllOf(HasSubstr("--cpu-infer with --supervise"), HasSubstr("each worker's threads")));
  EXPECT_EQ(OptionsOf({"--model", ".", "--supervise", "-t", "4"}).executor.threads, 4);
}

TEST(PeerFlagsTest, ErrorsForOtherFlagsSayWhatToUse) {
  EXPECT_THAT(AnswerTo("--kt-threadpool-count"),
              HasSubstr("--supervise starts one worker for each NUMA node"));
  EXPECT_THAT(AnswerTo("--kt-weight-path"), HasSubstr("--model takes the checkpoint"));
  EXPECT_THAT(AnswerTo("--port"), HasSubstr("--listen sets the address"));
  EXPECT_THAT(AnswerTo("--num-gpu-experts"), HasSubstr("this is a flag of numoe-coordinator"));
  EXPECT_THAT(AnswerTo("-tp"), HasSubstr("unknown flag -tp: --worker-count"));
  EXPECT_THAT(AnswerTo("--worker-cuont"), HasSubstr("did you mean --worker-count?"));
}

}  // namespace
}  // namespace numoe::worker
