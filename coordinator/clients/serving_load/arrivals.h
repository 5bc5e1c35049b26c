// When requests arrive: seconds after the start, planned before anything is sent.
//
// An infinite rate has them all at 0. Otherwise the gaps are drawn from a gamma distribution with mean 1 /
// rate and shape `burstiness`: 1 is a Poisson process, below 1 burstier, above 1 more even (vllm bench
// serve). The first comes at 0. Pure function of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace numoe::clients {

struct ArrivalOptions {
  double request_rate = std::numeric_limits<double>::infinity();  // requests a second
  double burstiness = 1;
  uint64_t seed = 1;
};

/// [count], ascending.
std::vector<double> PlanArrivals(size_t count, const ArrivalOptions& options);

}  // namespace numoe::clients
