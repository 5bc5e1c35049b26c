// BlockTables: gives KV blocks to sequences, finds their prefixes in the prefix cache, and releases blocks.
//
// It is the only writer of Sequence::kv, and the only class that gives blocks of the pool to sequences. A
// waiting sequence holds no blocks: FindPrefix finds those that it would share, and TakePrefix makes it hold
// them. Engine thread only; the pool outlives it. Contract: coordinator/engine/kvcache/CONTRACT.md.
#pragma once

#include "absl/types/span.h"
#include "coordinator/engine/kvcache/block_pool.h"
#include "coordinator/engine/scheduler/sequence.h"

namespace numoe::engine {

class BlockTables {
 public:
  /// `fixed_chunk_tokens`: if it is above 0, prefixes end only at multiples of it, where deterministic
  /// serving cuts prompts.
  BlockTables(BlockPool& pool, bool prefix_caching, int64_t fixed_chunk_tokens)
      : pool_(pool), prefix_caching_(prefix_caching), fixed_chunk_tokens_(fixed_chunk_tokens) {}

  /// Updates a waiting sequence's prefixes to what the cache contains of its tokens, without the last token,
  /// which must be computed for its logits. They are valid until the pool allocates a block.
  void FindPrefix(Sequence& s) const;
  /// Returns how many of the found blocks are idle.
  int IdleBlocks(const Sequence& s) const;
  /// Makes the sequence hold the blocks that FindPrefix found, and sets `cached` to their number of tokens.
  void TakePrefix(Sequence& s);
  /// Gives the sequence the blocks that it lacks for rows [0, tokens). REQUIRES: the pool has them.
  void Grow(Sequence& s, int64_t tokens);
  /// Adds `tokens` to `cached`, because a step has computed their rows.
  void Computed(Sequence& s, int tokens);
  /// Publishes the sequence's full blocks, so that other sequences find them.
  void Publish(Sequence& s);
  /// Returns how many of the sequence's blocks other sequences hold, too.
  int SharedBlocks(const Sequence& s) const;
  /// Unpublishes the blocks that the sequence computed, so that no other sequence gets their rows.
  void Unpublish(const Sequence& s);
  void Release(Sequence& s);

 private:
  absl::Span<const TokenId> BlockTokens(const Sequence& s, size_t block) const;

  BlockPool& pool_;
  const bool prefix_caching_;
  const int64_t fixed_chunk_tokens_;
};

}  // namespace numoe::engine
