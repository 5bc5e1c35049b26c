// Mutex, MutexLock and CondVar do what the standard's types under them do, from several threads: run under
// ThreadSanitizer, too, which must see the locks.
#include "common/base/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace numoe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(MutexTest, OneThreadAtATimeHoldsIt) {
  constexpr int kThreads = 4, kRounds = 20'000;
  struct {
    Mutex mutex;
    int first ABSL_GUARDED_BY(mutex) = 0;
    int second ABSL_GUARDED_BY(mutex) = 0;
    int torn ABSL_GUARDED_BY(mutex) = 0;  // how often one of the two was found ahead of the other
  } shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&shared] {
      for (int round = 0; round < kRounds; ++round) {
        const MutexLock lock(shared.mutex);
        if (shared.first != shared.second) ++shared.torn;
        ++shared.first;
        ++shared.second;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(shared.mutex);
  EXPECT_EQ(shared.torn, 0);
  EXPECT_EQ(shared.first, kThreads * kRounds);
}

TEST(MutexTest, AnotherThreadGetsItOnlyWhileItIsFree) {
  Mutex mutex;
  const auto is_free = [&mutex] {
    bool got = false;
    std::thread([&] {
      if (!mutex.TryLock()) return;
      got = true;
      mutex.Unlock();
    }).join();
    return got;
  };
  {
    MutexLock lock(mutex);
    EXPECT_FALSE(is_free());
    lock.Unlock();
    EXPECT_TRUE(is_free());
    lock.Lock();
    EXPECT_FALSE(is_free());
    lock.Unlock();
  }
  EXPECT_TRUE(is_free()) << "a lock that was released early was released again, or not at all";
}

struct Post {
  Mutex mutex;
  CondVar changed;
  int waiting ABSL_GUARDED_BY(mutex) = 0;
  int letters ABSL_GUARDED_BY(mutex) = 0;
  int taken ABSL_GUARDED_BY(mutex) = 0;
};

TEST(CondVarTest, ANotificationWakesOneThreadOrAll) {
  constexpr int kThreads = 3;
  Post post;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&post] {
      const MutexLock lock(post.mutex);
      ++post.waiting;
      while (post.letters == 0) post.changed.Wait(post.mutex);
      --post.letters;
      ++post.taken;
    });
  }
  const auto until = [&post](int Post::*count, int value) {
    while (true) {
      {
        const MutexLock lock(post.mutex);
        if (post.*count == value) return;
      }
      std::this_thread::yield();
    }
  };
  until(&Post::waiting, kThreads);  // the mutex is free again: every wait has released it
  {
    const MutexLock lock(post.mutex);
    post.letters = 1;
  }
  post.changed.NotifyOne();
  until(&Post::taken, 1);
  {
    const MutexLock lock(post.mutex);
    EXPECT_EQ(post.letters, 0);
    post.letters = kThreads - 1;
    post.changed.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(post.mutex);
  EXPECT_EQ(post.taken, kThreads);
}

TEST(CondVarTest, AWaitEndsWhenItsTimeHasPassed) {
  Mutex mutex;
  CondVar changed;
  const MutexLock lock(mutex);
  const Clock::time_point begin = Clock::now();
  while (changed.WaitFor(mutex, milliseconds(20))) {  // without a notification, but a system may wake threads
  }
  EXPECT_GE(Clock::now() - begin, milliseconds(20));
  EXPECT_FALSE(changed.WaitUntil(mutex, Clock::now() - milliseconds(1)));
}

TEST(CondVarTest, AThreadThatIsNotifiedInTimeReturnsTrue) {
  Post post;
  std::thread sender([&post] {
    const MutexLock lock(post.mutex);
    post.letters = 1;
    post.changed.NotifyOne();
  });
  {
    const MutexLock lock(post.mutex);
    const Clock::time_point deadline = Clock::now() + std::chrono::minutes(10);
    bool in_time = true;
    while (in_time && post.letters == 0) in_time = post.changed.WaitUntil(post.mutex, deadline);
    EXPECT_TRUE(in_time);
    EXPECT_EQ(post.letters, 1);
  }
  sender.join();
}

}  // namespace
}  // namespace numoe
