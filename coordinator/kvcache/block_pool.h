// BlockPool: who owns which KV cache block.
//
// The cache is a fixed number of blocks of block_tokens rows; a sequence owns whole blocks. Blocks come and
// go in LIFO order, so recently used memory is used again. Freeing a block twice or a block that nobody owns
// is a broken invariant and CHECKs. Owned by the engine thread. Invariants are in
// coordinator/kvcache/CONTRACT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/ids.h"

namespace numoe {

class BlockPool {
 public:
  BlockPool(int blocks, int block_tokens);

  /// A block for `owner`, or nullopt when all are taken.
  std::optional<int32_t> Allocate(SequenceId owner);
  void Free(int32_t block, SequenceId owner);

  int free_blocks() const { return static_cast<int>(free_.size()); }
  int used_blocks() const { return total_blocks() - free_blocks(); }
  int total_blocks() const { return static_cast<int>(owners_.size()); }
  int block_tokens() const { return block_tokens_; }
  /// Blocks that hold `tokens` tokens.
  int BlocksFor(int64_t tokens) const {
    return static_cast<int>((tokens + block_tokens_ - 1) / block_tokens_);
  }
  /// CHECKs that every block is either free once or owned once.
  void CheckInvariants() const;

 private:
  static constexpr SequenceId kNobody = -1;
  const int block_tokens_;
  std::vector<SequenceId> owners_;  // [block]
  std::vector<int32_t> free_;       // a stack
};

}  // namespace numoe
