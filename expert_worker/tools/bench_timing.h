// What all benchmarks share: threads on fixed CPUs, and times as quantiles.
//
// They use medians, because machines are shared, and a mean depends mostly on the other programs.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/check.h"

namespace numoe::worker {

inline void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu % static_cast<int>(std::thread::hardware_concurrency())), &set);
  sched_setaffinity(0, sizeof set, &set);
}

struct Quantiles {
  double p50 = 0;
  double p99 = 0;
};

// Returns the microseconds of `round`, after a tenth of the rounds as warm-up.
inline Quantiles Measure(int rounds, const std::function<void()>& round) {
  NUMOE_CHECK_GT(rounds, 0);
  std::vector<double> times;
  for (int i = 0; i < rounds + rounds / 10; ++i) {
    const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    round();
    if (i >= rounds / 10)
      times.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

}  // namespace numoe::worker
