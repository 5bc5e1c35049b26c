// CacheMemory: one cache of the CPU device (tensors.h), in BF16 or FP8.
//
// The layout is [layer][keys of head 0, of head 1, ..., values of head 0, ...][block][slot][channel], so a
// head reads adjacent blocks as one stream. In FP8 (common/kernels/cache_row.h) the exponents of a head's
// block, [slot][group], follow its rows and are padded to a whole cache line, so that rows of whole cache
// lines stay aligned. The pool's threads write and read it, in operations that never overlap. The memory is
// reserved once; rows never move.
#pragma once

#include "absl/status/status.h"
#include "common/kernels/cache_row.h"
#include "common/topology/node_memory.h"
#include "coordinator/execution/device/device.h"

namespace numoe::execution {

/// The layout of one head's keys, or of its values, in a block.
struct CacheRowForm {
  int width = 0;
  int coded = 0;  // the first `coded` values of a row are in FP8
  int groups = 0;
  size_t row_bytes = 0;
  size_t block_bytes = 0;
};

class CacheMemory {
 public:
  /// The addresses of a row and of its exponents (null in BF16). Those of the next slot are row_bytes and
  /// `groups` bytes further, up to the end of the block.
  struct Row {
    std::byte* values = nullptr;
    uint8_t* exponents = nullptr;
  };

  static uint64_t BytesOf(const CacheShape& shape, const KvCacheSize& size);
  /// INVALID_ARGUMENT: a row has both FP8 and BF16 values, but its FP8 part is not a multiple of 64 values.
  static absl::Status Check(const CacheShape& shape, const KvCacheSize& size);
  /// Allocates zeroed memory whose pages the operating system provides at first touch. RESOURCE_EXHAUSTED
  /// states how much was requested.
  absl::Status Reserve(const CacheShape& shape, const KvCacheSize& size);

  absl::Span<std::byte> bytes() const { return memory_.bytes(); }
  const CacheShape& shape() const { return shape_; }
  int block_tokens() const { return size_.block_tokens; }
  const CacheRowForm& keys() const { return keys_; }
  const CacheRowForm& values() const { return values_; }
  /// The key of `position` in the step's sequence `sequence`; `layer` is a layer of this cache.
  Row Key(const StepLayout& layout, int layer, int sequence, int position, int head) const {
    return At(keys_, Layer(layer) + static_cast<size_t>(head) * PlaneBytes(keys_), layout, sequence,
              position);
  }
  /// REQUIRES: values are not in the keys.
  Row Value(const StepLayout& layout, int layer, int sequence, int position, int head) const {
    return At(values_,
              Layer(layer) + static_cast<size_t>(shape_.row.heads) * PlaneBytes(keys_) +
                  static_cast<size_t>(head) * PlaneBytes(values_),
              layout, sequence, position);
  }

 private:
  size_t PlaneBytes(const CacheRowForm& form) const {
    return static_cast<size_t>(size_.blocks) * form.block_bytes;
  }
  std::byte* Layer(int layer) const {
    return memory_.data() + static_cast<size_t>(layer) * static_cast<size_t>(shape_.row.heads) *
                                (PlaneBytes(keys_) + PlaneBytes(values_));
  }
  Row At(const CacheRowForm& form, std::byte* plane, const StepLayout& layout, int sequence,
         int position) const {
    const auto block =
        static_cast<size_t>(layout.block_tables[static_cast<size_t>(sequence) *
                                                    static_cast<size_t>(layout.blocks_per_sequence_max) +
                                                static_cast<size_t>(position / size_.block_tokens)]);
    const auto slot = static_cast<size_t>(position % size_.block_tokens);
    std::byte* const rows = plane + block * form.block_bytes;
    if (form.groups == 0) return {rows + slot * form.row_bytes, nullptr};
    std::byte* const exponents = rows + static_cast<size_t>(size_.block_tokens) * form.row_bytes;
    return {rows + slot * form.row_bytes,
            reinterpret_cast<uint8_t*>(exponents) + slot * static_cast<size_t>(form.groups)};
  }

  CacheShape shape_;
  KvCacheSize size_;
  CacheRowForm keys_, values_;
  NodeMemory memory_;
};

}  // namespace numoe::execution
