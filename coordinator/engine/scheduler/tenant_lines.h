// TenantLines: how many requests of whom wait, and what each tenant's share of a full queue is.
//
// A full queue is shared by the tenants' weights, so that nobody is kept out by another's requests, however
// many sequences a request of theirs has. Values and pure functions.
#pragma once

#include <cstdint>
#include <map>

#include "common/base/check.h"

namespace numoe::engine {

struct TenantLine {
  int requests = 0;
  int weight = 1;
};

/// By tenant; only tenants that have a request.
using TenantLines = std::map<int, TenantLine>;

/// Whether a full queue takes one more request of the tenant: always its first one; a further one if the
/// tenant has less than its part of the queue and fewer than twice `queue_max` wait. So at most twice
/// `queue_max` requests wait, and one more of each tenant.
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
