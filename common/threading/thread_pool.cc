#include "common/threading/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

#include "common/base/check.h"
#include "common/threading/thread_binding.h"

namespace numoe {
namespace {

using Clock = std::chrono::steady_clock;

// Spins between two looks at the clock.
constexpr int kSpinsPerCheck = 64;

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}
void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

ThreadPool::ThreadPool(const ThreadPoolOptions& options) : options_(options) {
  for (size_t i = 1; i < options.cpus.size(); ++i) {
    std::thread& thread = threads_.emplace_back([this, i] { Loop(static_cast<int>(i)); });
    const std::string name = (options_.name + "-" + std::to_string(i)).substr(0, 15);
    pthread_setname_np(thread.native_handle(), name.c_str());
    // Refused where a container's cpuset shrank since it was read: the thread then runs unbound, which is
    // only slower.
    bound_ = BindThread(thread.native_handle(), {options_.cpus[i]}) && bound_;
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  FutexWakeAll(epoch_);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(int tasks, absl::FunctionRef<void(int task, int thread)> body) {
  NUMOE_DCHECK(body_ == nullptr) << "one Run at a time, and none inside a task";
  if (tasks <= 1 || threads_.empty()) {
    for (int task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  tasks_ = tasks;
  body_ = &body;
  done_.store(0, std::memory_order_relaxed);
  unclaimed_.store(tasks, std::memory_order_release);
  // Sequentially consistent with the sleeper's count-then-check (AwaitRun): one of the two sees the other.
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) FutexWakeAll(epoch_);
  Work(0);
  AwaitDone(tasks);
  body_ = nullptr;
}

void ThreadPool::Loop(int thread) {
  uint32_t seen = 0;
  while (true) {
    seen = AwaitRun(seen);
    if (stop_.load()) return;
    Work(thread);
  }
}

uint32_t ThreadPool::AwaitRun(uint32_t seen) {
  const Clock::time_point sleep_at = Clock::now() + std::chrono::microseconds(options_.spin_us);
  while (true) {
    for (int i = 0; i < kSpinsPerCheck; ++i) {
      const uint32_t now = epoch_.load(std::memory_order_acquire);
      if (now != seen) return now;
      _mm_pause();
    }
    if (Clock::now() < sleep_at) continue;
    sleepers_.fetch_add(1);
    if (epoch_.load() == seen) FutexWait(epoch_, seen);
    sleepers_.fetch_sub(1);
  }
}

void ThreadPool::AwaitDone(int tasks) {
  const auto all = static_cast<uint32_t>(tasks);
  const Clock::time_point sleep_at = Clock::now() + std::chrono::microseconds(options_.spin_us);
  while (true) {
    for (int i = 0; i < kSpinsPerCheck; ++i) {
      if (done_.load(std::memory_order_acquire) == all) return;
      _mm_pause();
    }
    if (Clock::now() < sleep_at) continue;
    // Flag first, then look: the thread that finishes the last task counts first, then looks at the flag
    // (Work).
    caller_sleeps_.store(true);
    for (uint32_t done = done_.load(); done != all; done = done_.load()) FutexWait(done_, done);
    caller_sleeps_.store(false);
    return;
  }
}

void ThreadPool::Work(int thread) {
  while (true) {
    const int unclaimed = unclaimed_.fetch_sub(1, std::memory_order_acq_rel);
    if (unclaimed <= 0) return;
    const int tasks = tasks_;
    (*body_)(tasks - unclaimed, thread);
    // Once the last task is counted the run is over and its fields are the next run's: read nothing of it any
    // more.
    if (done_.fetch_add(1) + 1 == static_cast<uint32_t>(tasks) && caller_sleeps_.load()) FutexWakeAll(done_);
  }
}

}  // namespace numoe
