// FirstError: what went wrong first among pieces of work that several threads do at once.
//
// Each thread tells how its piece ended; whoever started the work asks when all of them have ended, and a
// thread may ask before it begins another piece. Thread-safe.
#pragma once

#include "absl/status/status.h"
#include "common/base/mutex.h"

namespace numoe {

class FirstError {
 public:
  /// Keeps the first status that is an error. OK leaves everything as it is.
  void Note(const absl::Status& status) {
    if (status.ok()) return;
    const MutexLock lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  /// OK: no piece has failed so far.
  absl::Status status() const {
    const MutexLock lock(mutex_);
    return status_;
  }

 private:
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace numoe
