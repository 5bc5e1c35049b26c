// GraphCache: the graphs of captured steps, whose number is limited so that a card always has room for them.
//
// A graph's nodes are stored in the device's memory, and there is a bucket for every pair of rounded rows and
// context. A new graph replaces the one used longest ago, whose bucket is captured again when it is needed.
// One thread, the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/device/cuda/step_buffers.h"

namespace numoe::execution::cuda {

/// A graph of a model with 61 layers has about 2,000 nodes of one to two KiB each: together half a GiB of the
/// memory that plans reserve for the driver.
inline constexpr size_t kGraphsMax = 128;

class GraphCache {
 public:
  explicit GraphCache(size_t graphs_max = kGraphsMax) : graphs_max_(graphs_max) {}

  /// Returns the bucket's graph; nullptr if it was not captured or was removed.
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
