// FirstError: the first error among pieces of work that several threads do at the same time.
//
// Each thread reports the status of its piece with Note. The thread that started the work reads status() when
// all pieces have ended; a worker thread may read it before it begins another piece, to stop early.
// Thread-safe.
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
  /// Returns the first error; OK if no piece has failed so far.
  absl::Status status() const {
    const MutexLock lock(mutex_);
    return status_;
  }

 private:
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace numoe
