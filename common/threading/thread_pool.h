// ThreadPool: a parallel for loop on threads that are bound to CPUs.
//
// Run(tasks, body) calls body(task, thread) exactly once for each task, on the pool's threads and on the
// caller's thread (thread 0), and returns when all tasks are done; it does not wait for threads that claimed
// no task. A thread claims one task at a time, in ascending order, so that threads with short tasks claim
// more of them. RunPhases runs several such loops one after another: the thread that finishes a phase's last
// task starts the next phase, and a phase sees everything that earlier phases wrote. An idle thread, and a
// caller that waits for the tasks of other threads, first spins for spin_us, because the next run of a step
// comes soon, and then sleeps on a futex. So no thread spins without end, and a waiting thread holds no task.
// Any thread may call Run, but only one at a time, and body must not call it. There may be more threads than
// CPUs, which is slower. MoveTo changes the pool's CPUs; threads that are left without a CPU sleep.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"

namespace numoe {

struct ThreadPoolOptions {
  std::string name = "pool";  // threads are named name-1, name-2, ...
  // The pool has one thread for each CPU, which is bound to it. cpus[0] is for the caller, which
  // CallerThreads binds (caller_threads.h).
  std::vector<int> cpus;
  int spin_us = 50;  // how long an idle thread spins before it sleeps
};

class ThreadPool {
 public:
  explicit ThreadPool(const ThreadPoolOptions& options);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  void Run(int tasks, absl::FunctionRef<void(int task, int thread)> body);
  /// Phase p has phase_tasks[p] tasks, which start when all tasks of earlier phases are done.
  void RunPhases(absl::Span<const int> phase_tasks,
                 absl::FunctionRef<void(int phase, int task, int thread)> body);
  /// Returns the number of threads, the caller included.
  int threads() const { return static_cast<int>(threads_.size()) + 1; }
  /// Returns the CPU of each thread as given to the constructor.
  absl::Span<const int> cpus() const { return options_.cpus; }
  /// From now on thread i computes on cpus[i]. Threads without a CPU sleep; CPUs beyond threads() stay
  /// unused. Any thread may call this, even while another thread runs tasks. REQUIRES: at least one CPU.
  void MoveTo(std::vector<int> cpus);
  /// Returns the number of threads that have a CPU, the caller included.
  int working() const { return static_cast<int>(working_.load()); }
  /// Returns whether the kernel lets every thread with a CPU, except the caller, run on that CPU only.
  bool bound() const;
  /// Returns whether all threads have different CPUs.
  bool apart() const;

 private:
  void Loop(int thread);
  uint32_t AwaitRun(uint32_t seen);
  void AwaitEnd(uint32_t seen);
  void Work(int thread);
  bool Open(int phase);
  void TellCaller();
  void Park(int thread);
  void Bind() ABSL_EXCLUSIVE_LOCKS_REQUIRED(moving_);

  const ThreadPoolOptions options_;
  std::vector<std::thread> threads_;
  std::vector<pthread_t> handles_;  // the handles of threads_
  std::atomic<uint32_t> working_;   // futex word: threads with this number or a higher one have no CPU
  mutable Mutex moving_;
  std::vector<int> bound_to_ ABSL_GUARDED_BY(moving_);  // [threads with a CPU]

  // The members below are on two cache lines, because a run is expensive mainly for moving lines from core to
  // core. The first line is written to begin a phase, the second to end it.

  alignas(64) std::atomic<uint32_t> epoch_{0};  // futex word: raised for every phase, and to stop
  std::atomic<int> unclaimed_{0};  // tasks not yet claimed; less than zero if threads came too late
  // The current phase. The caller, or the thread that finished the preceding phase, writes these members
  // before it refills `unclaimed_`. Only threads that have claimed a task read them, and a phase cannot end
  // before all its tasks are finished. So a thread that wakes late never reads a half-written phase.
  int phase_ = 0;
  absl::Span<const int> phase_tasks_;
  const absl::FunctionRef<void(int, int, int)>* body_ = nullptr;
  std::atomic<int> sleepers_{0};  // threads that sleep, or are about to, on epoch_
  std::atomic<bool> stop_{false};

  alignas(64) std::atomic<int> done_{0};  // tasks of the phase that are finished
  std::atomic<uint32_t> progress_{0};     // futex word: raised for every phase that ended
  std::atomic<bool> ended_{false};        // all phases of the run have ended
  std::atomic<bool> caller_sleeps_{false};
};

}  // namespace numoe
