// CallerThreads: the threads that hand a ThreadPool its work, and compute with it as its thread 0.
//
// The pool has a CPU for thread 0 that none of its own threads is bound to. Who calls Run from one thread
// gives that thread the CPU; where several sessions take turns, each spins beside the other's work, so they
// share the CPUs of the whole node instead. They also do where that CPU is not the pool's alone (a desktop,
// whose coordinator computes there too): a thread that may run anywhere on the node evades the other. Bound
// before it makes memory, a thread's memory lies on that node. Any thread.
#pragma once

#include <pthread.h>

#include <vector>

#include "common/base/mutex.h"

namespace numoe {

class CallerThreads {
 public:
  /// `alone`: the CPUs of a caller while it is the only one (that of the pool's thread 0, or all of the
  /// node's). `several`: the CPUs that callers share while there are more.
  CallerThreads(std::vector<int> alone, std::vector<int> several)
      : several_(std::move(several)), alone_(std::move(alone)) {}
  CallerThreads(const CallerThreads&) = delete;
  CallerThreads& operator=(const CallerThreads&) = delete;

  /// From now on these are a lone caller's.
  void MoveTo(std::vector<int> alone);
  /// Whether every thread that calls now may run on its CPUs only, as the kernel says now.
  bool bound() const;

 private:
  friend class ScopedCaller;
  void Add(pthread_t thread);
  void Remove(pthread_t thread);
  const std::vector<int>& Cpus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Bind(pthread_t thread) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<int> several_;
  mutable Mutex mutex_;
  std::vector<int> alone_ ABSL_GUARDED_BY(mutex_);
  std::vector<pthread_t> callers_ ABSL_GUARDED_BY(mutex_);
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;  // the last time; it is said once until it works again
};

/// The calling thread is one of the callers while this lives; then it has the CPUs that it had before. Must
/// be destroyed on the thread that made it.
class ScopedCaller {
 public:
  /// Null: the thread stays as it is.
  explicit ScopedCaller(CallerThreads* callers);
  ScopedCaller(const ScopedCaller&) = delete;
  ScopedCaller& operator=(const ScopedCaller&) = delete;
  ~ScopedCaller();

 private:
  CallerThreads* const callers_;
  const std::vector<int> before_;
};

}  // namespace numoe
