// MetricsText: the text that /metrics answers, with a limit on how often it is made.
//
// The route needs no key, and making the text takes milliseconds where there are many series. A few texts are
// made in every 100 ms; a client that asks more often gets the last one again. Thread-safe.
#pragma once

#include <chrono>
#include <string>

#include "common/base/mutex.h"
#include "common/observe/metrics.h"

namespace numoe::net {

class MetricsText {
 public:
  static constexpr int kMadeMax = 10;
  static constexpr std::chrono::milliseconds kWindow{100};

  /// `metrics` outlives it.
  explicit MetricsText(const Metrics& metrics) : metrics_(metrics) {}

  std::string Get(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now()) {
    const MutexLock lock(mutex_);
    if (now >= begun_ + kWindow) {
      begun_ = now;
      made_ = 0;
    }
    if (made_ < kMadeMax) {
      ++made_;
      text_ = metrics_.Serialise();
    }
    return text_;
  }

 private:
  const Metrics& metrics_;
  Mutex mutex_;
  std::chrono::steady_clock::time_point begun_ ABSL_GUARDED_BY(mutex_);
  int made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string text_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace numoe::net
