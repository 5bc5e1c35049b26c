// TenantLines: how many requests of each tenant wait, and each tenant's share of a full queue.
//
// A full queue is shared in proportion to the tenants' weights, so that no tenant is kept out by the requests
// of another, however many sequences one of these has. Values and pure functions.
#pragma once

#include <cstdint>
#include <map>

#include "common/base/check.h"

namespace numoe::engine {

struct TenantLine {
  int requests = 0;
  int weight = 1;
};

/// By tenant; contains only tenants that have a request.
using TenantLines = std::map<int, TenantLine>;

/// Returns whether a full queue takes one more request of the tenant. It always takes the tenant's first one.
/// It takes a further one if the tenant has less than its part of the queue and fewer than twice `queue_max`
/// requests wait. So at most twice `queue_max` requests wait, and one more of each tenant.
inline bool FullQueueTakes(const TenantLines& waiting, int tenant, int weight, int queue_max) {
  NUMOE_DCHECK(weight >= 1 && queue_max >= 0);
  int64_t weights = weight, requests = 0;
  for (const auto& [other, line] : waiting) {
    weights += other != tenant ? line.weight : 0;
    requests += line.requests;
  }
  const auto own = waiting.find(tenant);
  if (own == waiting.end()) return true;
  return requests < 2 * int64_t{queue_max} && own->second.requests * weights < int64_t{queue_max} * weight;
}

}  // namespace numoe::engine
