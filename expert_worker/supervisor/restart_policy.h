// RestartPolicy: when a worker that ended is started again, and when no more. No clock, no process.
//
// A worker that has ever been ready is started again for ever, at growing distances until it has lived for a
// while: its flags and files were right, what it lacks now may come back, the other workers serve, and
// requests wait for it. One that ends time and again before it is ever ready has flags, files or memory that
// another try does not mend: the supervisor gives up and says so. One that knows it and says so
// (ReportToSupervisor) is asked no more at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/base/check.h"

namespace numoe::worker {

struct RestartLimits {
  int starts_max = 4;  // ends without ever having been ready
  std::chrono::milliseconds delay_min{500};
  std::chrono::milliseconds delay_max{30'000};
  std::chrono::milliseconds settled{60'000};  // ready for so long: the next end is the first one again
};

class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits) {
    NUMOE_CHECK(limits.starts_max > 0 && limits.delay_min <= limits.delay_max);
  }

  /// The worker ended. `ready_for`: how long it had been ready since it was started; nullopt: it was not.
  /// `for_good`: it says that another try would end alike. The time to wait before it is started again;
  /// nullopt: no more.
  std::optional<std::chrono::milliseconds> OnEnd(std::optional<std::chrono::milliseconds> ready_for,
                                                 bool for_good = false) {
    served_ = served_ || ready_for.has_value();
    if (!served_ && (for_good || ++starts_failed_ >= limits_.starts_max)) return std::nullopt;
    delay_ = !ready_for || *ready_for < limits_.settled
                 ? std::clamp(delay_ * 2, limits_.delay_min, limits_.delay_max)
                 : limits_.delay_min;
    return delay_;
  }

 private:
  const RestartLimits limits_;
  bool served_ = false;
  int starts_failed_ = 0;
  std::chrono::milliseconds delay_{0};
};

}  // namespace numoe::worker
