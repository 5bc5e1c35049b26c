// CallerThreads: binds the threads that call ThreadPool::Run, and compute as the pool's thread 0, to CPUs.
//
// The pool reserves a CPU for thread 0 and binds none of its own threads to it. While only one thread calls
// Run, that thread is bound to the reserved CPU. If several sessions call Run alternately, each of their
// threads spins while another one computes, so all of them may run on every CPU of the node instead. A single
// caller also gets all CPUs of the node if another process computes on the reserved CPU (a desktop's
// coordinator), because a thread that may run anywhere on the node can move to a free CPU. The memory of a
// thread that is bound before it first writes it is allocated on the node. Thread-safe.
#pragma once

#include <pthread.h>

#include <vector>

#include "common/base/mutex.h"

namespace numoe {

class CallerThreads {
 public:
  /// `alone`: the CPUs of a caller while it is the only one, which are the CPU of the pool's thread 0 or all
  /// CPUs of the node. `several`: the CPUs that the callers share while there are two or more.
  CallerThreads(std::vector<int> alone, std::vector<int> several)
      : several_(std::move(several)), alone_(std::move(alone)) {}
  CallerThreads(const CallerThreads&) = delete;
  CallerThreads& operator=(const CallerThreads&) = delete;

  /// Replaces the CPUs of a caller that is the only one.
  void MoveTo(std::vector<int> alone);
  /// Returns whether the kernel lets every caller run on the CPUs that it should have, and on no others.
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
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;  // the last binding failed, which is logged only once
};

/// While an object of this class exists, the thread that created it is one of the callers; its destructor
/// binds the thread to its former CPUs again. REQUIRES: it is destroyed on the thread that created it.
class ScopedCaller {
 public:
  /// Does nothing if `callers` is null.
  explicit ScopedCaller(CallerThreads* callers);
  ScopedCaller(const ScopedCaller&) = delete;
  ScopedCaller& operator=(const ScopedCaller&) = delete;
  ~ScopedCaller();

 private:
  CallerThreads* const callers_;
  const std::vector<int> before_;
};

}  // namespace numoe
