// Only events order the streams of the simulated runtime: work that is not waited for runs as late as
// possible, or as early as possible.
#include "tests/cuda_host/simulated_runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace numoe::execution::cuda {
namespace {

class SimulatedRuntimeTest : public ::testing::TestWithParam<bool> {
 protected:
  SimulatedRuntimeTest() {
    from_ = *runtime_->AllocateHost(1);
    between_ = *runtime_->Allocate(1);
    to_ = *runtime_->AllocateHost(1);
    *from_->host() = std::byte{1};
    *to_->host() = std::byte{0};
    *between_->device() = std::byte{9};
  }
  void Fill() { runtime_->Copy(between_->device(), from_->device(), 1, first_); }
  void Read() { runtime_->Copy(to_->device(), between_->device(), 1, second_); }
  std::byte Result() {
    EXPECT_TRUE(runtime_->Synchronize(second_).ok());
    return *to_->host();
  }
  const std::unique_ptr<Runtime> runtime_ = NewSimulatedRuntime({.others_first = GetParam()});
  const Stream first_ = *runtime_->NewStream(), second_ = *runtime_->NewStream();
  const Event event_ = *runtime_->NewEvent();
  std::unique_ptr<Memory> from_, between_, to_;
};

TEST_P(SimulatedRuntimeTest, AnEventOrdersTwoStreams) {
  Fill();
  runtime_->Record(event_, first_);
  runtime_->Wait(second_, event_);
  Read();
  EXPECT_EQ(Result(), std::byte{1});
}

TEST_P(SimulatedRuntimeTest, WithoutAWaitTheOtherStreamRunsFirstOrLast) {
  Fill();
  Read();
  EXPECT_EQ(Result(), GetParam() ? std::byte{1} : std::byte{9});
}

// A wait is for the work that was recorded before the wait was enqueued, not for later records.
TEST_P(SimulatedRuntimeTest, AWaitIsForTheRecordBeforeIt) {
  runtime_->Record(event_, first_);
  runtime_->Wait(second_, event_);
  Read();
  Fill();
  runtime_->Record(event_, first_);
  EXPECT_EQ(Result(), GetParam() ? std::byte{1} : std::byte{9});
}

TEST_P(SimulatedRuntimeTest, AnEventThatWasNeverRecordedIsNotWaitedFor) {
  runtime_->Wait(second_, event_);
  Read();
  EXPECT_EQ(Result(), std::byte{9});
}

// The second stream may write only after the first has read.
TEST_P(SimulatedRuntimeTest, EventsOrderBothWays) {
  runtime_->Copy(to_->device(), between_->device(), 1, second_);
  runtime_->Record(event_, second_);
  runtime_->Wait(first_, event_);
  Fill();
  EXPECT_EQ(Result(), std::byte{9});
  EXPECT_TRUE(runtime_->Synchronize(first_).ok());
  EXPECT_EQ(*between_->device(), std::byte{1});
}

// Cases that cudaHostRegister rejects, and one that it cannot detect.
TEST(PinnedMemoryTest, IsPinnedOnceAndMustStayMapped) {
  const auto runtime = NewSimulatedRuntime();
  const auto page = static_cast<size_t>(getpagesize());
  void* const mapped = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(mapped);
  EXPECT_FALSE(runtime->RegisterHost({bytes + 64, page}).ok()) << "does not begin with a page";
  auto first = runtime->RegisterHost({bytes, page});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(runtime->RegisterHost({bytes, 2 * page}).ok()) << "a page is pinned already";
  EXPECT_TRUE(runtime->RegisterHost({bytes + page, page}).ok());
  EXPECT_DEATH(
      {
        munmap(mapped, 2 * page);
        first->reset();
      },
      "unmapped while it was pinned");
  first->reset();
  EXPECT_TRUE(runtime->RegisterHost({bytes, 2 * page}).ok());
  munmap(mapped, 2 * page);
  EXPECT_FALSE(runtime->RegisterHost({bytes, page}).ok()) << "not mapped";
}

TEST(SimulatedRuntimeDeathTest, NothingIsAllocatedInACapture) {
  const auto runtime = NewSimulatedRuntime();
  const Stream stream = *runtime->NewStream();
  ASSERT_TRUE(runtime->BeginCapture(stream).ok());
  EXPECT_DEATH((void)runtime->Allocate(1), "while a stream is captured");
  EXPECT_DEATH((void)runtime->AllocateHost(1), "while a stream is captured");
  EXPECT_TRUE(runtime->EndCapture(stream).ok());
}

INSTANTIATE_TEST_SUITE_P(Orders, SimulatedRuntimeTest, ::testing::Bool());

}  // namespace
}  // namespace numoe::execution::cuda
