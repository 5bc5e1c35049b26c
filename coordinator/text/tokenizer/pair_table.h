// PairTable: the token to which two neighbouring tokens are merged, and the rank of that merge. A flat hash
// table with slots of 16 bytes.
//
// Open addressing with linear probing, at most two thirds full. Most pairs of a text cannot be merged; a
// filter with a bit for each hash value, 256 KiB for a large vocabulary, rejects these from the second-level
// cache. Filled once, then immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/check.h"
#include "common/base/ids.h"

namespace numoe::text {

inline constexpr int32_t kNoMerge = std::numeric_limits<int32_t>::max();

/// `left` and `right` are merged to `merged`; lower ranks come first.
struct Merge {
  TokenId left = -1;
  TokenId right = -1;
  int32_t rank = kNoMerge;
  TokenId merged = -1;
};

class PairTable {
 public:
  /// If a pair has several merges, the first one counts. REQUIRES: ids >= 0.
  explicit PairTable(const std::vector<Merge>& merges);

  /// Returns the merge of a pair. Its rank is kNoMerge if the pair cannot be merged.
  const Merge& Find(TokenId left, TokenId right) const {
    NUMOE_DCHECK(left >= 0 && right >= 0);
    const uint64_t hash = Hash(left, right);
    const uint64_t bit = hash >> filter_shift_;
    if ((filter_[bit / 64] >> bit % 64 & 1) == 0) return none_;
    for (size_t at = Start(hash);; at = (at + 1) & mask_) {
      const Merge& slot = slots_[at];
      if (slot.left < 0 || (slot.left == left && slot.right == right)) return slot;
    }
  }

 private:
  static uint64_t Hash(TokenId left, TokenId right) {
    const uint64_t pair = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    return pair * 0x9E3779B97F4A7C15;  // 2^64 / golden ratio; the high bits are mixed best
  }
  size_t Start(uint64_t hash) const { return (hash ^ hash >> 32) & mask_; }

  std::vector<Merge> slots_;
  size_t mask_;
  std::vector<uint64_t> filter_;  // a bit for each value of a hash's highest bits
  int filter_shift_;
  Merge none_;
};

}  // namespace numoe::text
