// Mutex, MutexLock and CondVar: std::mutex and std::condition_variable under names that Clang's thread-safety
// analysis understands.
//
// With -Wthread-safety (tests/tidy/thread_safety.sh) Clang proves that every access to a member marked
// ABSL_GUARDED_BY is made with the named mutex held, and that every function marked
// ABSL_EXCLUSIVE_LOCKS_REQUIRED is called with it held. Libstdc++'s std::mutex is not annotated as a lock for
// that analysis. absl::Mutex is annotated, but the distribution's libabsl is built without ThreadSanitizer,
// which therefore would not see its locks; std::mutex is a pthread mutex, whose locks ThreadSanitizer
// intercepts. The types here are as fast as the standard's.
//
// Any thread may use them. A thread that waits for a condition writes a loop, because the analysis does not
// look into lambdas: `while (!done_) changed_.Wait(mutex_);`, and with a time limit
// `while (!done_ && changed_.WaitUntil(mutex_, deadline))`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"

namespace numoe {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  /// Returns false if a thread holds the mutex.
  [[nodiscard]] bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;

  std::mutex mutex_;
};

/// Holds the mutex while it exists. Unlock releases the mutex early, and Lock acquires it again.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  [[nodiscard]] explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {
    if (held_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  /// REQUIRES: the mutex is held.
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    NUMOE_DCHECK(held_);
    held_ = false;
    mutex_.Unlock();
  }
  /// REQUIRES: Unlock was called last.
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    NUMOE_DCHECK(!held_);
    mutex_.Lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// A condition variable: threads wait here until data that a mutex guards changes. Each wait releases the
/// mutex, holds it again when it returns, and may return without a notification.
class CondVar {
 public:
  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  /// Returns false if `limit` has passed.
  template <typename Rep, typename Period>
  [[nodiscard]] bool WaitFor(Mutex& mutex, const std::chrono::duration<Rep, Period>& limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return WaitUntil(mutex, std::chrono::steady_clock::now() + limit);
  }
  /// Returns false if `deadline` has passed.
  template <typename Clock, typename Duration>
  [[nodiscard]] bool WaitUntil(Mutex& mutex, const std::chrono::time_point<Clock, Duration>& deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = changed_.wait_until(lock, deadline);
    lock.release();
    return status == std::cv_status::no_timeout;
  }

  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace numoe
