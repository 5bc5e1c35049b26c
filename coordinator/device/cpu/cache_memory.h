// CacheMemory: the CPU device's KV cache, one row of `row_width` BF16 values per token, laid out
// [layer][block][slot].
//
// Written by the engine thread's operations and read by the pool's threads in the operations after. Reserved
// once; rows keep their place.
#pragma once

#include "absl/status/status.h"
#include "common/topology/node_memory.h"
#include "coordinator/device/device.h"

namespace numoe {

class CacheMemory {
 public:
  /// Touches all of it, so that a cache that does not fit is refused now: RESOURCE_EXHAUSTED says how much it
  /// is.
  absl::Status Reserve(const KvCacheSpec& spec);

  const KvCacheSpec& spec() const { return spec_; }
  /// The row of `position` in the step's sequence `sequence`. Rows of a block lie beside each other.
  uint16_t* Row(const StepLayout& layout, LayerId layer, int sequence, int position) const {
    const KvBlockId block = layout.block_tables[static_cast<size_t>(sequence) *
                                                    static_cast<size_t>(layout.blocks_per_sequence_max) +
                                                static_cast<size_t>(position / spec_.block_tokens)];
    const int64_t slot =
        (int64_t{layer} * spec_.blocks + block) * spec_.block_tokens + position % spec_.block_tokens;
    return reinterpret_cast<uint16_t*>(memory_.data()) + slot * spec_.row_width;
  }

 private:
  KvCacheSpec spec_;
  NodeMemory memory_;
};

}  // namespace numoe
