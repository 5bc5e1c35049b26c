// Callers of a pool: one has the CPU of the pool's thread 0, several share the node's, and each is given
// back.
#include "common/threading/caller_threads.h"

#include <atomic>
#include <thread>

#include "common/threading/thread_binding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;

class CallerThreadsTest : public ::testing::Test {
 protected:
  CallerThreadsTest() : cpus_(CpusOfThisThread()), callers_({cpus_.back()}, cpus_) {}

  const std::vector<int> cpus_;
  CallerThreads callers_;
};

TEST_F(CallerThreadsTest, OneHasTheCpuOfThreadZero) {
  std::thread([&] {
    {
      const ScopedCaller caller(&callers_);
      EXPECT_THAT(CpusOfThisThread(), ElementsAre(cpus_.back()));
      EXPECT_TRUE(callers_.bound());
    }
    EXPECT_EQ(CpusOfThisThread(), cpus_) << "it has its CPUs back";
  }).join();
}

TEST_F(CallerThreadsTest, SeveralShareTheNodesCpus) {
  if (cpus_.size() < 2) GTEST_SKIP() << "this process has one CPU: alone and shared are the same";
  std::atomic<int> step = 0;
  const auto await = [&](int wanted) {
    while (step.load() < wanted) std::this_thread::yield();
  };
  std::thread first([&] {
    const ScopedCaller caller(&callers_);
    EXPECT_THAT(CpusOfThisThread(), ElementsAre(cpus_.back()));
    step = 1;
    await(2);
    EXPECT_EQ(CpusOfThisThread(), cpus_) << "another one came";
    step = 3;
    await(4);
    EXPECT_THAT(CpusOfThisThread(), ElementsAre(cpus_.back())) << "it is alone again";
  });
  std::thread second([&] {
    await(1);
    {
      const ScopedCaller caller(&callers_);
      EXPECT_EQ(CpusOfThisThread(), cpus_);
      step = 2;
      await(3);
    }
    step = 4;
  });
  first.join();
  second.join();
}

TEST_F(CallerThreadsTest, ARefusalIsRemembered) {
  CallerThreads nowhere({8000}, {8000});
  EXPECT_TRUE(nowhere.bound()) << "nobody calls";
  std::thread([&] {
    const ScopedCaller caller(&nowhere);
    EXPECT_EQ(CpusOfThisThread(), cpus_);
    EXPECT_FALSE(nowhere.bound());
  }).join();
  EXPECT_TRUE(nowhere.bound());
}

// Sessions come and go, and each layer call could say the same.
TEST_F(CallerThreadsTest, ARefusalIsSaidOnceUntilItWorksAgain) {
  CallerThreads nowhere({8000}, {8000});
  testing::internal::CaptureStdout();
  std::thread([&] {
    for (int call = 0; call < 100; ++call) const ScopedCaller caller(&nowhere);
    nowhere.MoveTo(cpus_);
    { const ScopedCaller caller(&nowhere); }
    nowhere.MoveTo({8000});
    for (int call = 0; call < 100; ++call) const ScopedCaller caller(&nowhere);
  }).join();
  const std::string log = testing::internal::GetCapturedStdout();
  size_t said = 0;
  for (size_t at = log.find("refuses"); at != std::string::npos; at = log.find("refuses", at + 1)) ++said;
  EXPECT_EQ(said, 2u) << log;
}

TEST_F(CallerThreadsTest, ALoneCallerFollowsThePool) {
  std::thread([&] {
    const ScopedCaller caller(&callers_);
    callers_.MoveTo({cpus_.front()});
    EXPECT_THAT(CpusOfThisThread(), ElementsAre(cpus_.front()));
    EXPECT_TRUE(callers_.bound());
  }).join();
}

TEST_F(CallerThreadsTest, ABindingThatSomebodyElseUndoesIsNoticed) {
  if (cpus_.size() < 2) GTEST_SKIP() << "this process has one CPU";
  std::thread([&] {
    const ScopedCaller caller(&callers_);
    EXPECT_TRUE(callers_.bound());
    BindThread(pthread_self(), cpus_);
    EXPECT_FALSE(callers_.bound());
  }).join();
}

TEST_F(CallerThreadsTest, NullLeavesTheThreadAsItIs) {
  const ScopedCaller caller(nullptr);
  EXPECT_EQ(CpusOfThisThread(), cpus_);
}

}  // namespace
}  // namespace numoe
