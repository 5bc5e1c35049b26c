#include "common/threading/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

#include "common/base/check.h"

namespace numoe {
namespace {

// Spins between two looks at the clock.
constexpr int kSpinsPerCheck = 64;

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}
void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void BindToCpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  // Refused where a container's cpuset shrank since it was read: the thread then runs unbound, which is only slower.
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

ThreadPool::ThreadPool(const ThreadPoolOptions& options) : options_(options) {
  for (size_t i = 1; i < options.cpus.size(); ++i) {
    threads_.emplace_back([this, i] { Loop(static_cast<int>(i)); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  FutexWakeAll(epoch_);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(int tasks, absl::FunctionRef<void(int task, int thread)> body) {
  if (tasks <= 1 || threads_.empty()) {
    for (int task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  NUMOE_DCHECK(inside_.load() == 0) << "Run is called by one thread at a time";
  tasks_ = tasks;
  body_ = &body;
  next_task_.store(0, std::memory_order_relaxed);
  inside_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  // Sequentially consistent with the sleeper's count-then-check (AwaitRun): one of the two sees the other.
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) FutexWakeAll(epoch_);
  Work(0);
  for (int spins = 0; inside_.load(std::memory_order_acquire) > 0; ++spins) {
    _mm_pause();
    if (spins % 1024 == 1023) sched_yield();  // a straggler may want this CPU
  }
  body_ = nullptr;
}

void ThreadPool::Loop(int thread) {
  const std::string name = (options_.name + "-" + std::to_string(thread)).substr(0, 15);
  pthread_setname_np(pthread_self(), name.c_str());
  BindToCpu(options_.cpus[static_cast<size_t>(thread)]);
  uint32_t seen = 0;
  while (true) {
    seen = AwaitRun(seen);
    if (stop_.load()) return;
    Work(thread);
    inside_.fetch_sub(1, std::memory_order_release);
  }
}

uint32_t ThreadPool::AwaitRun(uint32_t seen) {
  using Clock = std::chrono::steady_clock;
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

void ThreadPool::Work(int thread) {
  while (true) {
    const int task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks_) return;
    (*body_)(task, thread);
  }
}

}  // namespace numoe
