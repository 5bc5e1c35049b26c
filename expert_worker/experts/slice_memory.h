// SliceMemory: the memory of a slice's packed weights, with a block for every MoE layer.
//
// By default each layer is an allocation of its own in transparent huge pages, bound to the worker's nodes
// (memory_placement.h). With reserved huge pages, or if another process maps the memory, all layers are in
// one allocation, in which every layer begins at a huge page. That needs one descriptor, and no 1G page is
// cut at the end of a layer. Reserved pages are allocated here by the pool's threads, so that a missing page
// is an error now instead of a signal later. Move-only.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/threading/thread_pool.h"
#include "common/topology/node_memory.h"
#include "expert_worker/experts/memory_placement.h"
#include "expert_worker/experts/slice_layout.h"

namespace numoe::worker {

class SliceMemory {
 public:
  SliceMemory() = default;
  /// RESOURCE_EXHAUSTED says what is missing and what to set.
  static absl::StatusOr<SliceMemory> Reserve(const SliceLayout& layout, const ModelConfig& config,
                                             const MemoryPlacement& placement, ThreadPool& pool);
  /// Returns the bytes of the one allocation of all layers.
  static uint64_t BlockBytes(const SliceLayout& layout, const ModelConfig& config);

  std::byte* layer(LayerId layer) const { return layers_[static_cast<size_t>(layer)]; }
  MemorySpans Spans() const;
  /// Makes memory that other processes can map read-only for them. Call it when the memory is filled.
  absl::Status Seal() const;
  /// Returns -1 if no other process can map it.
  int fd() const { return blocks_.empty() ? -1 : blocks_.front().fd(); }
  /// Returns the bytes of the memory behind fd().
  uint64_t bytes() const { return blocks_.empty() ? 0 : blocks_.front().size(); }
  uint64_t offset(LayerId layer) const {
    return static_cast<uint64_t>(this->layer(layer) - blocks_.front().data());
  }

 private:
  std::vector<NodeMemory> blocks_;
  std::vector<std::byte*> layers_;  // [layers]; null for dense layers, or if nothing is reserved
};

}  // namespace numoe::worker
