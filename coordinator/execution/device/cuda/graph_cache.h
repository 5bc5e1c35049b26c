// GraphCache: the captured steps, at most so many that a card always has room for them.
//
// A graph's nodes lie in the device's memory, and there is a bucket for every pair of rounded rows and
// context. What was used longest ago makes way for a new one and is captured again when it comes back. One
// thread, the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/device/cuda/step_buffers.h"

namespace numoe::execution::cuda {

/// Some 2,000 nodes each of a model of 61 layers, one to two KiB a node: half a GiB of what plans keep for
/// the driver.
inline constexpr size_t kGraphsMax = 128;

class GraphCache {
 public:
  explicit GraphCache(size_t graphs_max = kGraphsMax) : graphs_max_(graphs_max) {}

  /// nullptr: not captured, or no longer.
  Graph* Find(const StepBucket& bucket) {
    const auto found = graphs_.find(bucket);
    if (found == graphs_.end()) return nullptr;
    found->second.used = ++uses_;
    return found->second.graph.get();
  }
  /// REQUIRES: no graph is running.
  void Insert(const StepBucket& bucket, std::unique_ptr<Graph> graph) {
    graphs_[bucket] = {std::move(graph), ++uses_};
    if (graphs_.size() <= graphs_max_) return;
    auto oldest = graphs_.begin();
    for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
      if (it->second.used < oldest->second.used) oldest = it;
    }
    graphs_.erase(oldest);
  }
  size_t size() const { return graphs_.size(); }

 private:
  struct Captured {
    std::unique_ptr<Graph> graph;
    uint64_t used = 0;
  };
  const size_t graphs_max_;
  uint64_t uses_ = 0;
  std::map<StepBucket, Captured> graphs_;
};

}  // namespace numoe::execution::cuda
