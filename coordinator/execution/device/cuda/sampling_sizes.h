// What drawing tokens on the device takes of its memory: for how many rows there is room.
//
// Pure, and without kernels, so that memory can be planned on machines that have no GPU. A step's rows beyond
// this room are read by the host and drawn there. Thread-safe.
#pragma once

#include <cstdint>

namespace numoe::execution::cuda {

/// Rows of one step that a mask or rules change: each has a copy of its logits, 168 MB at a vocabulary of
/// 164k.
inline constexpr int kSampleSlotsMax = 256;
/// Tokens that the rules of all rows of a step name together: 2 MB to copy in each step that has so many.
inline constexpr int kSampleRulesMax = 1 << 17;

struct SamplingSizes {
  int rows = 0;   // of logits in one step; 0: nothing is drawn on the device
  int vocab = 0;  // logits of a row
  int slots = 0;  // rows that a mask or rules change

  int mask_words() const { return (vocab + 63) / 64; }
  /// Parts of the block of tables, from its beginning: rows, rules, masks.
  uint64_t rules_offset() const;
  uint64_t masks_offset() const;
  uint64_t table_bytes() const;
  uint64_t shaped_bytes() const;
  uint64_t sampled_bytes() const;
  uint64_t total() const { return table_bytes() + shaped_bytes() + sampled_bytes(); }
};
/// `rows` and `vocab` of the tensor of logits. Kernels read four logits at once: none are drawn where they do
/// not divide a row.
SamplingSizes PlanSampling(int rows, int vocab, int sequences_max);

}  // namespace numoe::execution::cuda
