#include "common/threading/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <set>

#include "common/base/check.h"
#include "common/threading/thread_binding.h"

namespace numoe {
namespace {

using Clock = std::chrono::steady_clock;

// The number of spins between two readings of the clock.
constexpr int kSpinsPerCheck = 64;

// The number of sleeping threads that one thread wakes. Each wake-up costs it a microsecond, and the woken
// thread needs several microseconds until it runs.
constexpr int kWakesEach = 2;

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}
void FutexWake(std::atomic<uint32_t>& word, int threads) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

}  // namespace

ThreadPool::ThreadPool(const ThreadPoolOptions& options)
    : options_(options), working_(static_cast<uint32_t>(options.cpus.size())), bound_to_(options.cpus) {
  for (size_t i = 1; i < options.cpus.size(); ++i) {
    std::thread& thread = threads_.emplace_back([this, i] { Loop(static_cast<int>(i)); });
    const std::string name = (options_.name + "-" + std::to_string(i)).substr(0, 15);
    handles_.push_back(thread.native_handle());
    pthread_setname_np(handles_.back(), name.c_str());
  }
  NUMOE_CHECK_EQ(handles_.size(), threads_.size());
  const MutexLock lock(moving_);
  Bind();
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  working_.store(UINT32_MAX);  // larger than every thread's number, so no thread waits for a CPU any more
  FutexWake(working_, INT_MAX);
  epoch_.fetch_add(1);
  FutexWake(epoch_, INT_MAX);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Bind() {
  NUMOE_DCHECK_LE(bound_to_.size(), handles_.size() + 1);
  // The kernel refuses if a container's cpuset has shrunk since it was read. The thread then runs unbound,
  // which is slower, but not an error.
  for (size_t i = 1; i < bound_to_.size(); ++i) BindThread(handles_[i - 1], {bound_to_[i]});
}

void ThreadPool::MoveTo(std::vector<int> cpus) {
  NUMOE_CHECK(!cpus.empty());
  const MutexLock lock(moving_);
  bound_to_ = std::move(cpus);
  bound_to_.resize(std::min(bound_to_.size(), handles_.size() + 1));
  Bind();
  working_.store(static_cast<uint32_t>(bound_to_.size()));
  FutexWake(working_, INT_MAX);
}

bool ThreadPool::bound() const {
  const MutexLock lock(moving_);
  for (size_t i = 1; i < bound_to_.size(); ++i)
    if (CpusOfThread(handles_[i - 1]) != std::vector<int>{bound_to_[i]}) return false;
  return true;
}

bool ThreadPool::apart() const {
  const MutexLock lock(moving_);
  return std::set<int>(bound_to_.begin(), bound_to_.end()).size() == bound_to_.size();
}

// Sleeps until the thread has a CPU.
void ThreadPool::Park(int thread) {
  for (uint32_t working = working_.load(std::memory_order_relaxed); static_cast<uint32_t>(thread) >= working;
       working = working_.load())
    FutexWait(working_, working);
}

void ThreadPool::Run(int tasks, absl::FunctionRef<void(int task, int thread)> body) {
  RunPhases({tasks}, [&](int, int task, int thread) { body(task, thread); });
}

void ThreadPool::RunPhases(absl::Span<const int> phase_tasks,
                           absl::FunctionRef<void(int phase, int task, int thread)> body) {
  NUMOE_DCHECK(body_ == nullptr) << "only one Run at a time, and not inside a task";
  int phase = 0;
  for (; phase < static_cast<int>(phase_tasks.size()); ++phase) {
    const int tasks = phase_tasks[static_cast<size_t>(phase)];
    NUMOE_DCHECK_GE(tasks, 0);
    if (tasks > 1 && !threads_.empty()) break;
    for (int task = 0; task < tasks; ++task) body(phase, task, 0);
  }
  phase_tasks_ = phase_tasks;
  body_ = &body;
  ended_.store(false, std::memory_order_relaxed);
  const uint32_t progress = progress_.load(std::memory_order_relaxed);
  if (Open(phase)) {
    Work(0);
    AwaitEnd(progress);
    NUMOE_DCHECK_LE(unclaimed_.load(), 0) << "a task of the run is not done";
  }
  body_ = nullptr;
}

// Starts the first phase with tasks, beginning at `phase`; returns false if there is none.
bool ThreadPool::Open(int phase) {
  const int phases = static_cast<int>(phase_tasks_.size());
  while (phase < phases && phase_tasks_[static_cast<size_t>(phase)] == 0) ++phase;
  if (phase == phases) return false;
  phase_ = phase;
  done_.store(0, std::memory_order_relaxed);
  unclaimed_.store(phase_tasks_[static_cast<size_t>(phase)], std::memory_order_release);
  // This write and the following read are sequentially consistent. AwaitRun first raises `sleepers_` and then
  // reads `epoch_`, so at least one of the two threads sees the other's write.
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) FutexWake(epoch_, kWakesEach);
  return true;
}

void ThreadPool::TellCaller() {
  progress_.fetch_add(1);
  if (caller_sleeps_.load()) FutexWake(progress_, 1);
}

void ThreadPool::Loop(int thread) {
  NUMOE_DCHECK_GE(thread, 1);  // 0 is the caller
  uint32_t seen = 0;
  while (true) {
    Park(thread);
    seen = AwaitRun(seen);
    if (stop_.load()) return;
    if (thread < working()) Work(thread);
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
    // Each thread that wakes up wakes others, so that the thread that began the phase can compute meanwhile.
    if (sleepers_.fetch_sub(1) > 1 && epoch_.load() != seen) FutexWake(epoch_, kWakesEach);
  }
}

// Waits, on the caller's thread, for the run's end, and takes part in phases that begin meanwhile.
void ThreadPool::AwaitEnd(uint32_t seen) {
  while (true) {
    const Clock::time_point sleep_at = Clock::now() + std::chrono::microseconds(options_.spin_us);
    uint32_t now = seen;
    while (now == seen) {
      for (int i = 0; i < kSpinsPerCheck && now == seen; ++i) {
        _mm_pause();
        now = progress_.load(std::memory_order_acquire);
      }
      if (now != seen || Clock::now() < sleep_at) continue;
      // Set the flag first, then read `progress_`: TellCaller raises `progress_` first and then reads the
      // flag, so that one of the two threads sees the other's write.
      caller_sleeps_.store(true);
      while ((now = progress_.load()) == seen) FutexWait(progress_, seen);
      caller_sleeps_.store(false);
    }
    if (ended_.load(std::memory_order_acquire)) return;
    seen = now;
    Work(0);
  }
}

void ThreadPool::Work(int thread) {
  while (true) {
    const int unclaimed = unclaimed_.fetch_sub(1, std::memory_order_acq_rel);
    if (unclaimed <= 0) return;
    const int tasks = phase_tasks_[static_cast<size_t>(phase_)];
    NUMOE_DCHECK_LE(unclaimed, tasks);
    (*body_)(phase_, tasks - unclaimed, thread);
    // The thread that counts the phase's last task as done ends the phase, and overwrites its members with
    // those of the next phase. So other threads must not read them after they have counted their own task as
    // done.
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 != tasks) continue;
    const bool ended = !Open(phase_ + 1);
    if (ended) ended_.store(true, std::memory_order_release);
    TellCaller();
    if (ended) return;
  }
}

}  // namespace numoe
