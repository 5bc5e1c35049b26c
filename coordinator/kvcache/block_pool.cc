#include "coordinator/kvcache/block_pool.h"

#include "common/base/check.h"

namespace numoe {

BlockPool::BlockPool(int blocks, int block_tokens) : block_tokens_(block_tokens), owners_(blocks, kNobody) {
  NUMOE_CHECK(blocks > 0 && block_tokens > 0) << blocks << " blocks of " << block_tokens;
  for (int32_t block = blocks - 1; block >= 0; --block) free_.push_back(block);
}

std::optional<int32_t> BlockPool::Allocate(SequenceId owner) {
  NUMOE_CHECK_NE(owner, kNobody);
  if (free_.empty()) return std::nullopt;
  const int32_t block = free_.back();
  free_.pop_back();
  NUMOE_CHECK_EQ(owners_[block], kNobody);
  owners_[block] = owner;
  return block;
}

void BlockPool::Free(int32_t block, SequenceId owner) {
  NUMOE_CHECK(block >= 0 && block < total_blocks()) << "block " << block;
  NUMOE_CHECK_EQ(owners_[block], owner);
  owners_[block] = kNobody;
  free_.push_back(block);
}

void BlockPool::CheckInvariants() const {
  std::vector<bool> seen(owners_.size(), false);
  for (const int32_t block : free_) {
    NUMOE_CHECK(!seen[block] && owners_[block] == kNobody) << "block " << block << " is free twice or owned";
    seen[block] = true;
  }
  for (size_t block = 0; block < owners_.size(); ++block) {
    NUMOE_CHECK((owners_[block] == kNobody) == seen[block])
        << "block " << block << " is neither free nor owned";
  }
}

}  // namespace numoe
