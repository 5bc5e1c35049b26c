#include "coordinator/text/tokenizer/pair_table.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace numoe::text {
namespace {

constexpr size_t kFilterBitsPerMerge =
    4;  // about one pair in eight passes the filter without being in the table

}  // namespace

PairTable::PairTable(const std::vector<Merge>& merges)
    : slots_(std::bit_ceil(merges.size() + merges.size() / 2 + 1)), mask_(slots_.size() - 1) {
  const size_t bits = std::bit_ceil(std::max<size_t>(64, merges.size() * kFilterBitsPerMerge));
  filter_.resize(bits / 64);
  filter_shift_ = 64 - std::countr_zero(bits);
  NUMOE_CHECK_LT(merges.size(), slots_.size()) << "a search ends at an empty slot";
  NUMOE_CHECK_EQ(filter_.size() * 64, size_t{1} << (64 - filter_shift_));
  for (const Merge& merge : merges) {
    NUMOE_CHECK(merge.left >= 0 && merge.right >= 0 && merge.merged >= 0 && merge.rank != kNoMerge);
    const uint64_t hash = Hash(merge.left, merge.right);
    const uint64_t bit = hash >> filter_shift_;
    filter_[bit / 64] |= uint64_t{1} << bit % 64;
    size_t at = Start(hash);
    const auto taken = [&] {
      return slots_[at].left >= 0 && (slots_[at].left != merge.left || slots_[at].right != merge.right);
    };
    while (taken()) at = (at + 1) & mask_;
    if (slots_[at].left < 0) slots_[at] = merge;
  }
}

}  // namespace numoe::text
