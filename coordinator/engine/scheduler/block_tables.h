// BlockTables: gives sequences their KV blocks, finds what the prefix cache has of them, and takes blocks
// back.
//
// The only writer of Sequence::kv, and the only user of the pool. A waiting sequence holds no blocks;
// FindPrefix finds those that it would share, TakePrefix takes them. Engine thread only; the pool outlives
// it. Contract: coordinator/engine/kvcache/CONTRACT.md.
#pragma once

#include "absl/types/span.h"
#include "coordinator/engine/kvcache/block_pool.h"
#include "coordinator/engine/scheduler/sequence.h"

namespace numoe::engine {

class BlockTables {
 public:
  /// `fixed_chunk_tokens` > 0: prefixes end at its multiples only, where deterministic serving cuts prompts.
  BlockTables(BlockPool& pool, bool prefix_caching, int64_t fixed_chunk_tokens)
      : pool_(pool), prefix_caching_(prefix_caching), fixed_chunk_tokens_(fixed_chunk_tokens) {}

  /// Brings a waiting sequence's prefixes up to date: what the cache has of its tokens, but never the last
  /// one, which must be computed for its logits. Valid until the pool gives out a block.
  void FindPrefix(Sequence& s) const;
  /// Of the found blocks, those that nobody holds.
  int IdleBlocks(const Sequence& s) const;
  /// Holds the blocks that FindPrefix found; `cached` says how far they reach.
  void TakePrefix(Sequence& s);
  /// Blocks for rows [0, tokens). REQUIRES: the pool has them.
  void Grow(Sequence& s, int64_t tokens);
  /// So many more tokens have rows.
  void Computed(Sequence& s, int tokens);
  /// Names the blocks that `cached` has filled, for others to use.
  void Publish(Sequence& s);
  /// Of its blocks, those that others hold too.
  int SharedBlocks(const Sequence& s) const;
  /// Nobody else gets the rows that it computed.
  void Distrust(const Sequence& s);
  void Release(Sequence& s);

 private:
  absl::Span<const TokenId> BlockTokens(const Sequence& s, size_t block) const;

  BlockPool& pool_;
  const bool prefix_caching_;
  const int64_t fixed_chunk_tokens_;
};

}  // namespace numoe::engine
