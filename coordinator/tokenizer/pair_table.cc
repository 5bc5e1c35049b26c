#include "coordinator/tokenizer/pair_table.h"

#include <bit>

#include "common/base/check.h"

namespace numoe {

PairTable::PairTable(const std::vector<Merge>& merges)
    : slots_(std::bit_ceil(merges.size() + merges.size() / 2 + 1)), mask_(slots_.size() - 1) {
  for (const Merge& merge : merges) {
    NUMOE_CHECK(merge.left >= 0 && merge.right >= 0 && merge.merged >= 0 && merge.rank != kNoMerge);
    size_t at = Hash(merge.left, merge.right) & mask_;
    const auto taken = [&] {
      return slots_[at].left >= 0 && (slots_[at].left != merge.left || slots_[at].right != merge.right);
    };
    while (taken()) at = (at + 1) & mask_;
    if (slots_[at].left < 0) slots_[at] = merge;
  }
}

}  // namespace numoe
