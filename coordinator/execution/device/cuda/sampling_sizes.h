// The memory for drawing tokens on the device, and the number of rows for which it has room.
//
// Pure and without kernels, so that memory can be planned on machines without a GPU. Rows of a step for which
// there is no room are copied to the host, which draws their tokens. Thread-safe.
#pragma once

#include <cstdint>

namespace numoe::execution::cuda {

/// The most rows of one step that a mask or rules change: each needs a copy of its logits, together 168 MB at
/// a vocabulary of 164k.
inline constexpr int kSampleSlotsMax = 256;
/// The most tokens that the rules of all rows of a step may name together; a step with this many copies 2 MB.
inline constexpr int kSampleRulesMax = 1 << 17;

struct SamplingSizes {
  int rows = 0;   // rows of logits in one step; 0: the device draws no tokens
  int vocab = 0;  // logits of a row
  int slots = 0;  // rows that a mask or rules may change

  int mask_words() const { return (vocab + 63) / 64; }
  /// Offsets of the parts of the block of tables, which contains rows, rules and masks in this order.
  uint64_t rules_offset() const;
  uint64_t masks_offset() const;
  uint64_t table_bytes() const;
  uint64_t shaped_bytes() const;
  uint64_t sampled_bytes() const;
  uint64_t total() const { return table_bytes() + shaped_bytes() + sampled_bytes(); }
};
/// `rows` and `vocab` are the sizes of the tensor of logits. Kernels read four logits at once: if `vocab` is
/// not a multiple of 4, the device draws no tokens.
SamplingSizes PlanSampling(int rows, int vocab, int sequences_max);

}  // namespace numoe::execution::cuda
