// ThreadPool: a parallel for over threads that are bound to CPUs.
//
// Run(tasks, body) calls body(task, thread) once for each task, on the pool's threads and the caller's (thread 0), and
// returns when all are done and every thread has left. Tasks are claimed one at a time, so uneven tasks balance. Idle threads spin for spin_us after a run - the next one of a
// step comes soon - and then sleep on a futex. One Run at a time, from one thread. More threads than CPUs is legal.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace numoe {

struct ThreadPoolOptions {
  std::string name = "pool";  // threads are named name-1, name-2, ...
  std::vector<int> cpus;      // one thread for each, bound to it; cpus[0] stands for the caller, which is not bound
  int spin_us = 50;           // how long an idle thread spins before it sleeps
};

class ThreadPool {
 public:
  explicit ThreadPool(const ThreadPoolOptions& options);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  void Run(int tasks, absl::FunctionRef<void(int task, int thread)> body);
  int threads() const { return static_cast<int>(threads_.size()) + 1; }

 private:
  void Loop(int thread);
  uint32_t AwaitRun(uint32_t seen);
  void Work(int thread);

  const ThreadPoolOptions options_;
  std::vector<std::thread> threads_;

  // What the current run is; written by Run before `epoch_` is raised, read by threads after they saw it.
  int tasks_ = 0;
  const absl::FunctionRef<void(int, int)>* body_ = nullptr;

  alignas(64) std::atomic<uint32_t> epoch_{0};     // futex word: raised for every run, and to stop
  alignas(64) std::atomic<int> next_task_{0};
  alignas(64) std::atomic<int> inside_{0};         // threads that have not finished this run
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace numoe
