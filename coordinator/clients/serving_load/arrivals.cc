#include "coordinator/clients/serving_load/arrivals.h"

#include <cmath>
#include <random>

#include "common/base/check.h"

namespace numoe::clients {

std::vector<double> PlanArrivals(size_t count, const ArrivalOptions& options) {
  NUMOE_CHECK(options.request_rate > 0 && options.burstiness > 0);
  std::vector<double> arrivals(count, 0.0);
  if (std::isinf(options.request_rate)) return arrivals;
  std::mt19937_64 random(options.seed);
  std::gamma_distribution<double> gap(options.burstiness, 1 / (options.request_rate * options.burstiness));
  for (size_t i = 1; i < count; ++i) arrivals[i] = arrivals[i - 1] + gap(random);
  return arrivals;
}

}  // namespace numoe::clients
