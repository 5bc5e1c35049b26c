// WeightPlacement: the share of a slice's weights on each NUMA node, for all metrics of a scrape.
//
// Every metric of a scrape asks for it, weights rarely move, and reading numa_maps takes long where the
// kernel has no other source (node_memory.h). So an answer is kept for some seconds. Any thread may call it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "common/topology/node_memory.h"

namespace numoe::worker {

class WeightPlacement {
 public:
  struct Shares {
    std::optional<double> local;    // on the home nodes; nullopt if the kernel does not say
    std::map<int, double> by_node;  // by OS number
  };
  Shares Find(const MemorySpans& weights, const std::vector<int>& home) const {
    constexpr std::chrono::seconds kAge{5};
    const MutexLock lock(mutex_);
    if (std::chrono::steady_clock::now() < until_) return shares_;
    const auto found = NodeShares(weights);
    shares_ = {.local = found ? std::optional(0.0) : std::nullopt,
               .by_node = found.value_or(std::map<int, double>{})};
    for (const int node : home)
      if (const auto share = shares_.by_node.find(node); share != shares_.by_node.end())
        *shares_.local += share->second;
    until_ = std::chrono::steady_clock::now() + kAge;
    return shares_;
  }

 private:
  mutable Mutex mutex_;
  mutable Shares shares_ ABSL_GUARDED_BY(mutex_);
  mutable std::chrono::steady_clock::time_point until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace numoe::worker
