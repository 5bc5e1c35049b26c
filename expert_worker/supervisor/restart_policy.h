// RestartPolicy: decides when a worker that ended is restarted, and when not any more. No clock, no process.
//
// A worker that was ever ready is always restarted, because its flags and files were right, whatever it lacks
// now may come back, the other workers serve, and requests wait for it. The delay doubles with each restart
// until the worker has been ready for some time. A worker that ends several times without having been ready
// has flags, files or memory that another start does not repair: the supervisor gives up and says so. It
// gives up at once if the worker itself reports that (ReportToSupervisor).
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/base/check.h"

namespace numoe::worker {

struct RestartLimits {
  int starts_max = 4;  // failed starts of a worker that was never ready
  std::chrono::milliseconds delay_min{500};
  std::chrono::milliseconds delay_max{30'000};
  std::chrono::milliseconds settled{60'000};  // after this time of readiness the delay is delay_min again
};

class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits) {
    NUMOE_CHECK(limits.starts_max > 0 && limits.delay_min <= limits.delay_max);
  }

  /// Call this when the worker has ended. `ready_for`: how long it was ready since its last start; nullopt if
  /// it was not. `permanent`: it reported that another start would fail in the same way. Returns the delay
  /// before the next start; nullopt if it should not be restarted.
  std::optional<std::chrono::milliseconds> OnEnd(std::optional<std::chrono::milliseconds> ready_for,
                                                 bool permanent = false) {
    served_ = served_ || ready_for.has_value();
    if (!served_ && (permanent || ++starts_failed_ >= limits_.starts_max)) return std::nullopt;
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
