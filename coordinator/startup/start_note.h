// StartNote: what a starting coordinator is doing, in words that /health shows.
//
// The main thread and the thread that waits for the workers set it; the server's threads read it.
#pragma once

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace numoe::startup {

class StartNote {
 public:
  explicit StartNote(std::string text) : text_(std::move(text)) {}
  void Set(std::string text) {
    const MutexLock lock(mutex_);
    text_ = std::move(text);
  }
  std::string Get() const {
    const MutexLock lock(mutex_);
    return text_;
  }

 private:
  mutable Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace numoe::startup
