// Binding threads to CPUs. Each test starts its own thread, so that the test process keeps its CPUs.
#include "common/threading/thread_binding.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;

TEST(ThreadBindingTest, BindsAThreadToOneCpu) {
  std::thread([] {
    const int last = CpusOfThisThread().back();
    EXPECT_TRUE(BindThread(pthread_self(), {last}));
    EXPECT_THAT(CpusOfThisThread(), ElementsAre(last));
    EXPECT_EQ(sched_getcpu(), last);
  }).join();
}

TEST(ThreadBindingTest, AScopeRestoresTheFormerCpus) {
  std::thread([] {
    const std::vector<int> before = CpusOfThisThread();
    {
      const ScopedThreadBinding scope({before.front()});
      EXPECT_THAT(CpusOfThisThread(), ElementsAre(before.front()));
    }
    EXPECT_EQ(CpusOfThisThread(), before);
  }).join();
}

TEST(ThreadBindingTest, RefusesCpusThatDoNotExist) {
  std::thread([] {
    const std::vector<int> before = CpusOfThisThread();
    EXPECT_FALSE(BindThread(pthread_self(), {-1}));
    EXPECT_FALSE(BindThread(pthread_self(), {8000}));
    EXPECT_FALSE(BindThread(pthread_self(), {1 << 20}));
    EXPECT_FALSE(BindThread(pthread_self(), {}));
    EXPECT_EQ(CpusOfThisThread(), before);
  }).join();
}

}  // namespace
}  // namespace numoe
