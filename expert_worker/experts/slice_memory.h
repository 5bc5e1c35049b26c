// SliceMemory: where a slice's packed weights lie: a block for every MoE layer.
//
// By default each layer is a block of its own, in transparent huge pages, bound to the worker's nodes
// (memory_place.h). Reserved huge pages, and memory that another process maps, are one block in which every
// layer begins at a huge page: one descriptor, and no 1G page is cut short by a layer's end. Reserved pages
// are made here, by the pool's threads, so that one that is missing is an error now and not the end of the
// process later. Move-only.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/threading/thread_pool.h"
#include "common/topology/node_memory.h"
#include "expert_worker/experts/memory_place.h"
#include "expert_worker/experts/slice_layout.h"

namespace numoe::worker {

class SliceMemory {
 public:
  SliceMemory() = default;
  /// RESOURCE_EXHAUSTED says what is missing and what to set.
  static absl::StatusOr<SliceMemory> Reserve(const SliceLayout& layout, const ModelConfig& config,
                                             const MemoryPlace& place, ThreadPool& pool);
  /// Bytes of the one block of all layers.
  static uint64_t BlockBytes(const SliceLayout& layout, const ModelConfig& config);

  std::byte* layer(LayerId layer) const { return layers_[static_cast<size_t>(layer)]; }
  MemorySpans Spans() const;
  /// What others can map, nobody but this process can write to from now on. To be called once it is filled.
  absl::Status Seal() const;
  /// -1: nobody can map it.
  int fd() const { return blocks_.empty() ? -1 : blocks_.front().fd(); }
  /// Of the block behind fd().
  uint64_t bytes() const { return blocks_.empty() ? 0 : blocks_.front().size(); }
  uint64_t offset(LayerId layer) const {
    return static_cast<uint64_t>(this->layer(layer) - blocks_.front().data());
  }

 private:
  std::vector<NodeMemory> blocks_;
  std::vector<std::byte*> layers_;  // [layers] null: dense, or nothing is reserved
};

}  // namespace numoe::worker
