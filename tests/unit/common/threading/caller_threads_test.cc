// The CPUs of a pool's callers: a single caller has the CPU of the pool's thread 0, several callers share the
// CPUs of the node, and each gets its former CPUs back.
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

TEST_F(CallerThreadsTest, ASingleCallerHasTheCpuOfThreadZero) {
  std::thread([&] {
    {
      const ScopedCaller caller(&callers_);
      EXPECT_THAT(CpusOfThisThread(), ElementsAre(cpus_.back()));
      EXPECT_TRUE(callers_.bound());
    }
    EXPECT_EQ(CpusOfThisThread(), cpus_) << "it has its CPUs back";
  }).join();
}

TEST_F(CallerThreadsTest, SeveralCallersShareTheNodesCpus) {
  if (cpus_.size() < 2)
    GTEST_SKIP() << "this process has one CPU, so one caller and several have the same CPUs";
  std::atomic<int> step = 0;
  const auto await = [&](int wanted) {
    while (step.load() < wanted) std::this_thread::yield();
  };
  std::thread first([&] {
    const ScopedCaller caller(&callers_);
    EXPECT_THAT(CpusOfThisThread(), ElementsAre(cpus_.back()));
    step = 1;
    await(2);
    EXPECT_EQ(CpusOfThisThread(), cpus_) << "another caller has come";
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

TEST_F(CallerThreadsTest, ARefusedBindingIsReported) {
  CallerThreads nowhere({8000}, {8000});
  EXPECT_TRUE(nowhere.bound()) << "there is no caller";
  std::thread([&] {
    const ScopedCaller caller(&nowhere);
    EXPECT_EQ(CpusOfThisThread(), cpus_);
    EXPECT_FALSE(nowhere.bound());
  }).join();
  EXPECT_TRUE(nowhere.bound());
}

// Sessions come and go, and every layer call could log the same warning.
TEST_F(CallerThreadsTest, ARefusalIsLoggedOnceUntilBindingWorksAgain) {
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
  size_t warnings = 0;
  for (size_t at = log.find("refuses"); at != std::string::npos; at = log.find("refuses", at + 1)) ++warnings;
  EXPECT_EQ(warnings, 2u) << log;
}

TEST_F(CallerThreadsTest, MoveToMovesASingleCaller) {
  std::thread([&] {
    const ScopedCaller caller(&callers_);
    callers_.MoveTo({cpus_.front()});
    EXPECT_THAT(CpusOfThisThread(), ElementsAre(cpus_.front()));
    EXPECT_TRUE(callers_.bound());
  }).join();
}

TEST_F(CallerThreadsTest, ABindingThatIsUndoneElsewhereIsNoticed) {
  if (cpus_.size() < 2) GTEST_SKIP() << "this process has one CPU";
  std::thread([&] {
    const ScopedCaller caller(&callers_);
    EXPECT_TRUE(callers_.bound());
    BindThread(pthread_self(), cpus_);
    EXPECT_FALSE(callers_.bound());
  }).join();
}

TEST_F(CallerThreadsTest, NullDoesNotChangeTheThread) {
  const ScopedCaller caller(nullptr);
  EXPECT_EQ(CpusOfThisThread(), cpus_);
}

}  // namespace
}  // namespace numoe
