// CacheMemory: the CPU device's KV cache, in BF16.
//
// Laid out [layer][block][keys of head 0, of head 1, ..., values of head 0, ...][slot][channel]: what one
// head reads of a block lies together, so that memory is read in pieces of some kilobytes and never fetched
// for a head that does not want it. Written and read by the pool's threads, in operations that follow each
// other. Reserved once; rows keep their place.
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
  /// The key of `position` in the step's sequence `sequence`. The next slots' keys follow it up to the end of
  /// the block.
  uint16_t* Key(const StepLayout& layout, LayerId layer, int sequence, int position, int head) const {
    return Block(layout, layer, sequence, position) +
           (int64_t{head} * spec_.block_tokens + position % spec_.block_tokens) * spec_.row.key_width;
  }
  /// REQUIRES: values are not in the keys.
  uint16_t* Value(const StepLayout& layout, LayerId layer, int sequence, int position, int head) const {
    return Block(layout, layer, sequence, position) +
           int64_t{spec_.row.heads} * spec_.block_tokens * spec_.row.key_width +
           (int64_t{head} * spec_.block_tokens + position % spec_.block_tokens) * spec_.row.value_width;
  }

 private:
  uint16_t* Block(const StepLayout& layout, LayerId layer, int sequence, int position) const {
    const KvBlockId block = layout.block_tables[static_cast<size_t>(sequence) *
                                                    static_cast<size_t>(layout.blocks_per_sequence_max) +
                                                static_cast<size_t>(position / spec_.block_tokens)];
    return reinterpret_cast<uint16_t*>(memory_.data()) +
           (int64_t{layer} * spec_.blocks + block) * spec_.block_tokens * spec_.row.width();
  }

  KvCacheSpec spec_;
  NodeMemory memory_;
};

}  // namespace numoe
