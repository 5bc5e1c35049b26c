// Every task runs exactly once, whether threads sleep, spin or share CPUs. The sanitizer build runs these
// tests under TSan.
#include "common/threading/thread_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "common/threading/thread_binding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

std::vector<int> Cpus(int threads) {
  const std::vector<int> usable = CpusOfThisThread();
  std::vector<int> cpus;
  for (int i = 0; i < threads; ++i) cpus.push_back(usable[static_cast<size_t>(i) % usable.size()]);
  return cpus;
}

double CpuSecondsOfProcess() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class ThreadPoolTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryTaskExactlyOnce) {
  ThreadPool pool({.cpus = Cpus(GetParam())});
  ASSERT_EQ(pool.threads(), std::max(1, GetParam()));
  for (const int tasks : {0, 1, 2, 3, 7, 64, 1000}) {
    // Not atomic, so that TSan sees a race if a task runs twice at the same time.
    std::vector<int> runs(static_cast<size_t>(tasks));
    pool.Run(tasks, [&](int task, int thread) {
      ASSERT_GE(thread, 0);
      ASSERT_LT(thread, pool.threads());
      ++runs[static_cast<size_t>(task)];
    });
    EXPECT_THAT(runs, ::testing::Each(1)) << tasks << " tasks";
  }
}

TEST_P(ThreadPoolTest, ManyShortRunsSeeTheResultsOfEarlierOnes) {
  ThreadPool pool({.cpus = Cpus(GetParam()), .spin_us = 5});
  std::vector<int64_t> values(8);
  const int runs = 3000;
  for (int run = 0; run < runs; ++run) {
    // Each run increments what the preceding run wrote at the next position, so that a task that is lost,
    // repeated or late makes all later sums wrong.
    std::vector<int64_t> next(values.size());
    pool.Run(static_cast<int>(values.size()), [&](int task, int) {
      const auto i = static_cast<size_t>(task);
      next[i] = values[(i + 1) % values.size()] + 1;
    });
    values = next;
  }
  EXPECT_THAT(values, ::testing::Each(runs));
}

TEST_P(ThreadPoolTest, ARunWakesSleepingThreads) {
  ThreadPool pool({.cpus = Cpus(GetParam()), .spin_us = 0});
  for (int run = 0; run < 30; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> count = 0;
    pool.Run(16, [&](int, int) { ++count; });
    EXPECT_EQ(count.load(), 16);
  }
}

TEST_P(ThreadPoolTest, APhaseSeesWhatEarlierPhasesWrote) {
  ThreadPool pool({.cpus = Cpus(GetParam()), .spin_us = 5});
  for (const std::vector<int>& phases : std::vector<std::vector<int>>{
           {}, {0}, {3}, {1, 1, 1}, {0, 4, 0, 0, 2}, {1, 9, 1, 16, 0}, {40, 1, 0, 40, 7, 1}}) {
    for (int run = 0; run < 200; ++run) {
      // Not atomic, so that TSan sees a race if a task starts before its phase or runs twice at the same
      // time.
      std::vector<std::vector<int>> values(phases.size() + 1);
      values[0] = {1};
      for (size_t p = 0; p < phases.size(); ++p) values[p + 1].resize(static_cast<size_t>(phases[p]));
      pool.RunPhases(phases, [&](int phase, int task, int thread) {
        ASSERT_LT(thread, pool.threads());
        int sum = 1;
        for (int before = 0; before <= phase; ++before) {
          for (const int value : values[static_cast<size_t>(before)]) sum += value;
        }
        values[static_cast<size_t>(phase) + 1][static_cast<size_t>(task)] += sum;
      });
      int sum = 2;
      for (size_t p = 1; p < values.size(); ++p) {
        ASSERT_THAT(values[p], ::testing::Each(sum)) << "phase " << p - 1 << " of run " << run;
        sum += sum * phases[p - 1];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, ::testing::Values(0, 1, 2, 4, 16));

TEST(ThreadPoolLifeTest, SleepingThreadsShareTheWork) {
  ThreadPool pool({.cpus = Cpus(3), .spin_us = 0});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // all threads sleep, so they have to be woken
  std::vector<std::atomic<int>> tasks_of(3);
  pool.Run(30, [&](int, int thread) {
    ++tasks_of[static_cast<size_t>(thread)];
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  for (const std::atomic<int>& tasks : tasks_of) EXPECT_GT(tasks.load(), 0);
}

TEST(ThreadPoolLifeTest, ASleepingCallerTakesPartInTheNextPhase) {
  ThreadPool pool({.cpus = Cpus(2), .spin_us = 0});
  std::atomic<int> of_caller = 0;
  const std::vector<int> phases = {2, 40};
  pool.RunPhases(phases, [&](int phase, int, int thread) {
    // The caller finishes its task of the first phase long before the other thread.
    if (phase == 0 && thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    if (phase == 1 && thread == 0) ++of_caller;
    for (int i = 0; i < 10'000 && of_caller.load() == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_GT(of_caller.load(), 0);
}

TEST(ThreadPoolLifeTest, ARunReturnsOnlyWhenItsSlowestTaskIsDone) {
  ThreadPool pool({.cpus = Cpus(4), .spin_us = 10});
  std::atomic<bool> finished = false;
  pool.Run(2, [&](int task, int) {
    if (task == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    finished = true;
  });
  EXPECT_TRUE(finished.load());
}

TEST(ThreadPoolLifeTest, IdleThreadsAndAWaitingCallerSleep) {
  ThreadPool pool({.cpus = Cpus(4), .spin_us = 50});
  pool.Run(4, [](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = CpuSecondsOfProcess();
  // Two tasks sleep. The two other threads have nothing to do, nor has the caller once its own task is done.
  pool.Run(
      2, [](int task, int) { std::this_thread::sleep_for(std::chrono::milliseconds(task == 0 ? 1 : 400)); });
  EXPECT_LT(CpuSecondsOfProcess() - before, 0.1) << "a thread spun for 400 ms";
}

TEST(ThreadPoolLifeTest, ThreadsAreNamedAndBound) {
  const std::vector<int> cpus = Cpus(3);
  ThreadPool pool({.name = "a-very-long-pool", .cpus = cpus});
  EXPECT_TRUE(pool.bound());
  std::vector<std::string> names(3);
  std::vector<std::vector<int>> bindings(3);
  pool.Run(60, [&](int, int thread) {
    const auto i = static_cast<size_t>(thread);
    char name[16];
    pthread_getname_np(pthread_self(), name, sizeof name);
    names[i] = name;
    bindings[i] = CpusOfThisThread();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  EXPECT_EQ(names[1], std::string("a-very-long-pool-1").substr(0, 15));
  EXPECT_THAT(bindings[1], ::testing::ElementsAre(cpus[1]));
  EXPECT_THAT(bindings[2], ::testing::ElementsAre(cpus[2]));
}

TEST(ThreadPoolLifeTest, ARefusedBindingIsReported) {
  const ThreadPool pool({.cpus = {0, 8000}});
  EXPECT_FALSE(pool.bound());
}

// This happens when other workers start on the same CPUs, and end, while calls run.
TEST(ThreadPoolLifeTest, ThreadsWithoutACpuSleepAndComeBack) {
  ThreadPool pool({.cpus = Cpus(4), .spin_us = 5});
  const std::vector<int> cpus = Cpus(4);
  std::atomic<bool> stop = false;
  std::thread mover([&] {
    for (size_t count = 1; !stop.load(); count = count % 4 + 1)
      pool.MoveTo({cpus.begin(), cpus.begin() + static_cast<int64_t>(count)});
  });
  for (int run = 0; run < 2'000; ++run) {
    std::atomic<int> done = 0;
    pool.Run(16, [&](int, int thread) {
      EXPECT_LT(thread, 4);
      done.fetch_add(1);
    });
    ASSERT_EQ(done.load(), 16);
  }
  stop = true;
  mover.join();
  pool.MoveTo({cpus[0], cpus[1]});
  EXPECT_EQ(pool.working(), 2);
  EXPECT_EQ(pool.threads(), 4);
  EXPECT_TRUE(pool.bound());
  // A thread that was computing when it lost its CPU finishes that run.
  std::atomic<int> late = 0, last[4] = {-1, -1, -1, -1};
  for (int run = 0; run < 200; ++run) {
    pool.Run(8, [&](int, int thread) {
      if (last[thread].exchange(run) != run && thread >= 2) late.fetch_add(1);
      std::this_thread::yield();
    });
  }
  EXPECT_LE(late.load(), 2);
  pool.MoveTo(Cpus(9));
  EXPECT_EQ(pool.working(), 4);
  pool.MoveTo({cpus[0]});
  EXPECT_TRUE(pool.apart());
  pool.MoveTo({cpus[0], cpus[0]});
  EXPECT_FALSE(pool.apart()) << "two threads have the same CPU";
}

TEST(ThreadPoolLifeTest, ABindingThatIsUndoneElsewhereIsNoticed) {
  const std::vector<int> all = CpusOfThisThread();
  if (all.size() < 2) GTEST_SKIP() << "this process has one CPU";
  ThreadPool pool({.cpus = {all[0], all[1]}});
  EXPECT_TRUE(pool.bound());
  std::atomic<bool> undone = false;
  while (!undone.load()) {
    pool.Run(4, [&](int, int thread) {
      if (thread == 1) undone = BindThread(pthread_self(), all);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  EXPECT_FALSE(pool.bound());
}

TEST(ThreadPoolLifeTest, PoolsOfOneProcessAreIndependent) {
  std::vector<std::thread> owners;
  for (int p = 0; p < 3; ++p) {
    owners.emplace_back([p] {
      ThreadPool pool({.cpus = Cpus(3), .spin_us = 5});
      for (int run = 0; run < 300; ++run) {
        std::atomic<int> sum = 0;
        pool.Run(p + 5, [&](int task, int) { sum += task; });
        ASSERT_EQ(sum.load(), (p + 5) * (p + 4) / 2);
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
}

}  // namespace
}  // namespace numoe
