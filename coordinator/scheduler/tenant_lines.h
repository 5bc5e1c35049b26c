// TenantLines: how many requests of whom wait, and what each tenant's share of a full queue is.
//
// A full queue is shared by the tenants' weights, so that nobody is kept out by another's requests, however
// many sequences a request of theirs has. Values and pure functions.
#pragma once

#include <cstdint>
#include <map>

namespace numoe {

struct TenantLine {
  int requests = 0;
  int weight = 1;
};

/// By tenant; only tenants that have a request.
using TenantLines = std::map<int, TenantLine>;

/// Whether the tenant may put one more behind those that fill the queue: it has less than its part of it,
/// which is at least one request.
inline bool FullQueueTakes(const TenantLines& waiting, int tenant, int weight, int queue_max) {
  int64_t weights = weight;
  for (const auto& [other, line] : waiting) weights += other != tenant ? line.weight : 0;
  const auto own = waiting.find(tenant);
  return own == waiting.end() || own->second.requests * weights < int64_t{queue_max} * weight;
}

}  // namespace numoe
