// Streams of the simulated runtime meet by events alone: what is not waited for comes as late as it may, or
// as early.
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

// Waiting for what was recorded when the wait was enqueued, not later.
TEST_P(SimulatedRuntimeTest, AWaitIsForTheRecordBefore) {
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

// The second stream may write only when the first has read.
TEST_P(SimulatedRuntimeTest, EventsOrderBothWays) {
  runtime_->Copy(to_->device(), between_->device(), 1, second_);
  runtime_->Record(event_, second_);
  runtime_->Wait(first_, event_);
  Fill();
  EXPECT_EQ(Result(), std::byte{9});
  EXPECT_TRUE(runtime_->Synchronize(first_).ok());
  EXPECT_EQ(*between_->device(), std::byte{1});
}

// What cudaHostRegister refuses, and what it cannot see.
TEST(PinnedMemoryTest, IsPinnedOnceAndAsLongAsItIsMapped) {
  const auto runtime = NewSimulatedRuntime();
  const auto page = static_cast<size_t>(getpagesize());
  void* const mapped = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(mapped);
  EXPECT_FALSE(runtime->RegisterHost({bytes + 64, page}).ok()) << "not a page's beginning";
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
