// HangWatch: when a child that runs and does nothing is to be killed. No clock, no process.
//
// A sign of life is a health answer that says SERVING, or, while the child loads, bytes that it has read
// since the last look: a slow load is never a hung one. What counts is time in which the supervisor itself
// looked: after a pause of the whole machine the child gets its deadline anew rather than being found silent.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/base/check.h"

namespace numoe::worker {

struct HangLimits {
  std::chrono::milliseconds serving{60'000};   // without SERVING, once it has served
  std::chrono::milliseconds loading{600'000};  // without progress, before
  std::chrono::milliseconds look{1'000};       // how often it is looked at
};

class HangWatch {
 public:
  explicit HangWatch(const HangLimits& limits) : limits_(limits) { NUMOE_CHECK_GT(limits.look.count(), 0); }

  void OnStart() { *this = HangWatch(limits_); }

  /// `passed` since the look before; `served`: it has been ready since it was started; `answers` and
  /// `progress` only grow where there are signs of life. True: it hangs.
  bool Look(std::chrono::milliseconds passed, bool served, int64_t answers, uint64_t progress) {
    NUMOE_CHECK(passed.count() >= 0 && answers >= answers_) << "clocks that only go on";
    silence_ += std::min(passed, 2 * limits_.look);
    if (answers != answers_ || progress != progress_ || served != served_) silence_ = {};
    answers_ = answers;
    progress_ = progress;
    served_ = served;
    return silence_ >= (served ? limits_.serving : limits_.loading);
  }
  /// Since the last sign of life.
  std::chrono::milliseconds silence() const { return silence_; }

 private:
  HangLimits limits_;
  std::chrono::milliseconds silence_{0};
  int64_t answers_ = 0;
  uint64_t progress_ = 0;
  bool served_ = false;
};

}  // namespace numoe::worker
