// CacheMemory: the CPU device's KV cache, in BF16.
//
// Laid out [layer][keys of head 0, of head 1, ..., values of head 0, ...][block][slot][channel]: what one
// head reads of blocks beside each other is one stream. Written and read by the pool's threads, in operations
// that follow each other. Reserved once; rows keep their place.
#pragma once

#include "absl/status/status.h"
#include "common/topology/node_memory.h"
#include "coordinator/device/device.h"

namespace numoe {

class CacheMemory {
 public:
  static uint64_t BytesOf(const KvCacheSpec& spec);
  /// Zeros that the kernel has yet to find pages for. RESOURCE_EXHAUSTED says how much it is.
  absl::Status Reserve(const KvCacheSpec& spec);

  absl::Span<std::byte> bytes() const { return memory_.bytes(); }
  const KvCacheSpec& spec() const { return spec_; }
  /// The key of `position` in the step's sequence `sequence`. The next slots' keys follow it up to the end of
  /// the block.
  uint16_t* Key(const StepLayout& layout, LayerId layer, int sequence, int position, int head) const {
    return Layer(layer) + (head * positions() + Slot(layout, sequence, position)) * spec_.row.key_width;
  }
  /// REQUIRES: values are not in the keys.
  uint16_t* Value(const StepLayout& layout, LayerId layer, int sequence, int position, int head) const {
    return Layer(layer) + spec_.row.heads * positions() * spec_.row.key_width +
           (head * positions() + Slot(layout, sequence, position)) * spec_.row.value_width;
  }

 private:
  int64_t positions() const { return int64_t{spec_.blocks} * spec_.block_tokens; }
  uint16_t* Layer(LayerId layer) const {
    return reinterpret_cast<uint16_t*>(memory_.data()) + layer * positions() * spec_.row.width();
  }
  int64_t Slot(const StepLayout& layout, int sequence, int position) const {
    const KvBlockId block = layout.block_tables[static_cast<size_t>(sequence) *
                                                    static_cast<size_t>(layout.blocks_per_sequence_max) +
                                                static_cast<size_t>(position / spec_.block_tokens)];
    return int64_t{block} * spec_.block_tokens + position % spec_.block_tokens;
  }

  KvCacheSpec spec_;
  NodeMemory memory_;
};

}  // namespace numoe
