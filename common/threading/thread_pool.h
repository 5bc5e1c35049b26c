// ThreadPool: a parallel for over threads that are bound to CPUs.
//
// Run(tasks, body) calls body(task, thread) exactly once for each task, on the pool's threads and the
// caller's (thread 0), and returns when all tasks are done; it does not wait for threads that found nothing
// to do. Tasks are claimed one at a time in ascending order, so uneven tasks balance. RunPhases does several
// runs one after the other, each begun by the thread that ends the one before; a phase sees what those before
// wrote. Idle threads, and a caller whose tasks are still out, spin for spin_us - the next run of a step
// comes soon - and then sleep on a futex: nothing spins for ever, and who waits holds no task. One Run at a
// time, from any one thread; body must not call Run. More threads than CPUs is legal, only slower. MoveTo
// gives CPUs back to others, or takes them again: threads without one sleep.
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
  // One thread for each, bound to it. cpus[0] stands for the caller, who binds itself (caller_threads.h).
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
  /// phase_tasks[p] tasks of phase p start when all of the phases before are done.
  void RunPhases(absl::Span<const int> phase_tasks,
                 absl::FunctionRef<void(int phase, int task, int thread)> body);
  /// The caller included.
  int threads() const { return static_cast<int>(threads_.size()) + 1; }
  /// One for each thread, as asked for when the pool was made.
  absl::Span<const int> cpus() const { return options_.cpus; }
  /// From now on thread i computes on cpus[i], and threads beyond these sleep; CPUs beyond threads() are
  /// nobody's. Any thread, also while another one runs tasks. REQUIRES: at least one CPU.
  void MoveTo(std::vector<int> cpus);
  /// Threads that have a CPU, the caller included.
  int working() const { return static_cast<int>(working_.load()); }
  /// Whether every thread with a CPU may run there and nowhere else, as the kernel says now.
  bool bound() const;
  /// Whether no CPU has two of the threads.
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
  std::vector<pthread_t> handles_;  // of threads_
  std::atomic<uint32_t> working_;   // futex word: threads from this number on have no CPU
  mutable Mutex moving_;
  std::vector<int> bound_to_ ABSL_GUARDED_BY(moving_);  // [threads with a CPU]

  // Two lines of memory, because a line that moves from core to core is what a run costs: one that begins a
  // phase and one that ends it.

  alignas(64) std::atomic<uint32_t> epoch_{0};  // futex word: raised for every phase, and to stop
  std::atomic<int> unclaimed_{0};  // tasks nobody has claimed; below zero by threads that came too late
  // What the current phase is. Written before `unclaimed_` is refilled, by the caller or by the thread that
  // ended the phase before; read only by threads that hold a claim, and a claim that is not done keeps its
  // phase from ending. So a thread that wakes late can never read a half-written one.
  int phase_ = 0;
  absl::Span<const int> phase_tasks_;
  const absl::FunctionRef<void(int, int, int)>* body_ = nullptr;
  std::atomic<int> sleepers_{0};  // threads that sleep, or are about to, on epoch_
  std::atomic<bool> stop_{false};

  alignas(64) std::atomic<int> done_{0};  // tasks of the phase that are finished
  std::atomic<uint32_t> progress_{0};     // futex word: raised for every phase that ended
  std::atomic<bool> ended_{false};        // all of the run's
  std::atomic<bool> caller_sleeps_{false};
};

}  // namespace numoe
