// HangWatch: decides when a running child counts as hung and must be killed. No clock, no process.
//
// A sign of life is a health answer SERVING or, while the child loads, bytes that it has read since the last
// check, so that a slow load never counts as hung. Between two checks at most twice the usual time counts:
// after a pause of the whole machine, in which the supervisor did not run either, the child is not found
// silent.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/base/check.h"

namespace numoe::worker {

struct HangLimits {
  std::chrono::milliseconds serving{60'000};        // without an answer SERVING, for a child that has served
  std::chrono::milliseconds loading{600'000};       // without progress, for a child that still loads
  std::chrono::milliseconds check_interval{1'000};  // the time between two checks
};

class HangWatch {
 public:
  explicit HangWatch(const HangLimits& limits) : limits_(limits) {
    NUMOE_CHECK_GT(limits.check_interval.count(), 0);
  }

  void OnStart() { *this = HangWatch(limits_); }

  /// Checks the child and returns whether it hangs. `passed`: time since the last check. `served`: the child
  /// has been ready since it was started. `answers` and `progress` grow with every sign of life.
  bool Check(std::chrono::milliseconds passed, bool served, int64_t answers, uint64_t progress) {
    NUMOE_CHECK(passed.count() >= 0 && answers >= answers_) << "time and counts must not go backwards";
    silence_ += std::min(passed, 2 * limits_.check_interval);
    if (answers != answers_ || progress != progress_ || served != served_) silence_ = {};
    answers_ = answers;
    progress_ = progress;
    served_ = served;
    return silence_ >= (served ? limits_.serving : limits_.loading);
  }
  /// Returns the time since the last sign of life.
  std::chrono::milliseconds silence() const { return silence_; }

 private:
  HangLimits limits_;
  std::chrono::milliseconds silence_{0};
  int64_t answers_ = 0;
  uint64_t progress_ = 0;
  bool served_ = false;
};

}  // namespace numoe::worker
