// PairTable: what two neighbouring tokens join to, and how early. A flat hash table of 16 bytes a slot.
//
// Open addressing with linear probing, at most two thirds full. Filled once, then immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/ids.h"

namespace numoe {

inline constexpr int32_t kNoMerge = std::numeric_limits<int32_t>::max();

/// `left` and `right` become `merged`; lower ranks come first.
struct Merge {
  TokenId left = -1;
  TokenId right = -1;
  int32_t rank = kNoMerge;
  TokenId merged = -1;
};

class PairTable {
 public:
  /// Of two merges of one pair the first counts. REQUIRES: ids >= 0.
  explicit PairTable(const std::vector<Merge>& merges);

  /// rank == kNoMerge: they do not join.
  const Merge& Find(TokenId left, TokenId right) const {
    for (size_t at = Hash(left, right) & mask_;; at = (at + 1) & mask_) {
      const Merge& slot = slots_[at];
      if (slot.left < 0 || (slot.left == left && slot.right == right)) return slot;
    }
  }

 private:
  static size_t Hash(TokenId left, TokenId right) {
    const uint64_t pair = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    const uint64_t product = pair * 0x9E3779B97F4A7C15;
    return product ^ product >> 32;
  }

  std::vector<Merge> slots_;
  size_t mask_;
};

}  // namespace numoe
