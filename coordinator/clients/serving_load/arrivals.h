// Plans when the requests of a load are sent, in seconds after the start.
//
// With an infinite rate all are sent at 0. Otherwise the gaps are drawn from a gamma distribution with mean
// 1 / rate and shape `burstiness`: 1 is a Poisson process, below 1 burstier, above 1 more even (as in vllm
// bench serve). The first request is sent at 0. A pure function of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace numoe::clients {

struct ArrivalOptions {
  double request_rate = std::numeric_limits<double>::infinity();  // requests per second
  double burstiness = 1;
  uint64_t seed = 1;
};

/// Returns [count] times, ascending.
std::vector<double> PlanArrivals(size_t count, const ArrivalOptions& options);

}  // namespace numoe::clients
