// The rule that decides whether a worker fits to the others.
#include "coordinator/execution/transport/worker_status.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

using ::testing::HasSubstr;

std::vector<WorkerStatus> TwoUp() {
  return {{.address = "a", .up = true, .identity = {.worker_index = 0, .worker_count = 2}},
          {.address = "b", .up = true, .identity = {.worker_index = 1, .worker_count = 2}}};
}

TEST(CheckFitsTest, AWorkerIsComparedToTheOthersThatAreUp) {
  std::vector<WorkerStatus> workers = TwoUp();
  const WorkerIdentity twin{.worker_index = 1, .worker_count = 2};
  EXPECT_TRUE(CheckFits(workers[0].identity, 0, workers).ok()) << "it may have the slice that it had before";
  EXPECT_THAT(CheckFits(twin, 0, workers).ToString(),
              HasSubstr("it is slice 1 of 2, which worker b serves already, expected another one"));
  const WorkerIdentity by_expert{.slice_by_expert = true, .worker_index = 0, .worker_count = 2};
  EXPECT_THAT(CheckFits(by_expert, 0, workers).ToString(),
              HasSubstr("--slice=expert, expected --slice=intermediate as worker b has"));
  workers[1].up = false;  // all of them may change, one after another
  EXPECT_TRUE(CheckFits(twin, 0, workers).ok());
  EXPECT_TRUE(CheckFits(by_expert, 0, workers).ok());
}

TEST(CheckFitsTest, NumericFormatsMustStayTheSame) {
  std::vector<WorkerStatus> workers = TwoUp();
  const WorkerIdentity int8{.worker_index = 0, .worker_count = 2, .numeric_formats = "--format=int8"};
  EXPECT_TRUE(CheckFits(int8, 0, workers).ok()) << "it is the first worker that reports its formats";
  workers[1].identity.numeric_formats = "--format=bf16";
  for (const bool up : {true, false}) {
    workers[1].up = up;
    EXPECT_THAT(CheckFits(int8, 0, workers).ToString(),
                HasSubstr("computes with --format=int8, expected --format=bf16 as worker b does or did"));
  }
  workers[1].identity.numeric_formats = "--format=int8";
  EXPECT_TRUE(CheckFits(int8, 0, workers).ok());
  workers[0].identity.numeric_formats = "--format=int4";
  EXPECT_THAT(CheckFits(int8, 0, workers).ToString(), HasSubstr("expected --format=int4 as it does or did"));
}

TEST(CheckFitsTest, CountAndIndexAreThoseOfTheAddresses) {
  const std::vector<WorkerStatus> workers = TwoUp();
  for (const WorkerIdentity& wrong : {WorkerIdentity{.worker_index = 3, .worker_count = 4},
                                      WorkerIdentity{.worker_index = 0, .worker_count = 1}}) {
    const absl::Status status = CheckFits(wrong, 0, workers);
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_THAT(status.ToString(), HasSubstr("start all of them with --worker-count=2"));
  }
  for (const int index : {-1, 2, 1 << 30}) {
    EXPECT_THAT(CheckFits({.worker_index = index, .worker_count = 2}, 0, workers).ToString(),
                HasSubstr("expected 0 to 1"));
  }
}

}  // namespace
}  // namespace numoe::execution
