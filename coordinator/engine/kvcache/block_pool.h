// BlockPool: counts which sequences use which KV cache block, and remembers which blocks contain the rows of
// a prefix that later requests can reuse (the prefix cache).
//
// The cache is a fixed number of blocks of block_tokens rows. A block is *held* by one or more sequences,
// *idle* (held by no sequence, but its rows belong to a known prefix) or *blank*. A full block can be
// published under the pair (prefix before it, its tokens); a later sequence with the same beginning then
// holds the same block instead of computing its rows again. Prefixes form a tree whose edges are whole blocks
// of tokens. They are compared token by token, so that two different prompts are never confused. The memory
// for this is allocated with the pool: publishing a block allocates nothing and touches three cache lines.
// When no blank block is left, the least recently used idle block is evicted. A wrong release is a broken
// invariant and CHECKs. Owned by the engine thread. The invariants are in
// coordinator/engine/kvcache/CONTRACT.md. The design follows vLLM's automatic prefix caching and SGLang's
// radix cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe::engine {

/// The number of a prefix of whole blocks. A number is never reused for another prefix.
using PrefixNode = int64_t;
inline constexpr PrefixNode kEmptyPrefix = 0;

class BlockPool {
 public:
  BlockPool(int blocks, int block_tokens);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Returns a block with undefined rows for one holder; nullopt if all blocks are held. May evict an idle
  /// block.
  std::optional<KvBlockId> Allocate();
  /// Adds a holder to a block that is held or idle.
  void Retain(KvBlockId block);
  /// Removes a holder. A sequence releases its last block first, so that long prefixes are evicted before
  /// short ones.
  void Release(KvBlockId block);

  /// Publishes a held block that contains the rows of `tokens`, which follow the prefix `parent`. Returns the
  /// prefix that ends with these tokens; it is the block's name. `salt` keeps the prefixes of different
  /// tenants apart; it is the same for every block of a sequence. If another block already has this name,
  /// that block keeps it, and this one stays private to its sequence.
  PrefixNode Publish(PrefixNode parent, std::string_view salt, absl::Span<const TokenId> tokens,
                     KvBlockId block);
  /// Publishes consecutive blocks, as a long prompt has them, and appends the prefix of each to `prefixes`.
  void PublishAll(PrefixNode parent, std::string_view salt, absl::Span<const TokenId> tokens,
                  absl::Span<const KvBlockId> blocks, std::vector<PrefixNode>& prefixes);
  /// Returns the prefix of `parent` followed by `tokens`; nullopt if no block contains it.
  std::optional<PrefixNode> Find(PrefixNode parent, std::string_view salt,
                                 absl::Span<const TokenId> tokens) const;
  /// Returns the last block of the prefix `node`; nullopt if that block is not published any more.
  std::optional<KvBlockId> BlockOf(PrefixNode node) const {
    const auto block = static_cast<KvBlockId>(node % total_blocks());
    if (node == kEmptyPrefix || StateOf(block).name != node) return std::nullopt;
    return block;
  }
  /// Returns how many blocks were unpublished so far. While it does not change, BlockOf still finds every
  /// prefix that it found before.
  uint64_t unpublished_count() const { return unpublished_count_; }
  /// Removes the name of a block whose rows may be wrong, so that no other sequence finds it.
  void Unpublish(KvBlockId block);
  /// Removes the names of all first blocks whose salt begins with `beginning`, and of all blocks if it is "".
  /// Blocks that follow an unpublished block are not found any more, and are evicted when their memory is
  /// needed.
  void UnpublishBySalt(std::string_view beginning);

  int holders(KvBlockId block) const { return StateOf(block).holders; }
  int free_blocks() const { return static_cast<int>(blank_.size() + idle_.size()); }
  int idle_blocks() const { return static_cast<int>(idle_.size()); }
  int used_blocks() const { return total_blocks() - free_blocks(); }
  int total_blocks() const { return static_cast<int>(states_.size()); }
  int block_tokens() const { return block_tokens_; }
  /// Returns how many blocks `tokens` tokens need.
  int BlocksFor(int64_t tokens) const {
    return static_cast<int>((tokens + block_tokens_ - 1) / block_tokens_);
  }
  /// CHECKs that every block is in exactly one state and that every name leads to its block.
  void CheckInvariants() const;

 private:
  // An edge of the tree of prefixes: the edge of a named block, or one to look up.
  struct Edge {
    PrefixNode parent = kEmptyPrefix;
    std::string_view salt;  // only edges from the empty prefix have one
    absl::Span<const TokenId> tokens;
    size_t hash = 0;

    bool operator==(const Edge& other) const {
      return hash == other.hash && parent == other.parent && salt == other.salt && tokens == other.tokens;
    }
  };
  struct State {
    PrefixNode name = kEmptyPrefix;  // kEmptyPrefix if it has none
    PrefixNode parent = kEmptyPrefix;
    size_t hash = 0;        // of its edge
    uint64_t released = 0;  // when it went idle
    int holders = 0;
  };
  // named_ contains blocks; the hash and the comparison of a block are those of its edge, by which it is
  // found.
  struct EdgeHash {
    using is_transparent = void;
    const BlockPool* pool;
    size_t operator()(const Edge& edge) const { return edge.hash; }
    size_t operator()(KvBlockId block) const { return pool->StateOf(block).hash; }
  };
  struct EdgeEqual {
    using is_transparent = void;
    const BlockPool* pool;
    const Edge& View(const Edge& edge) const { return edge; }
    Edge View(KvBlockId block) const { return pool->EdgeOf(block); }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return View(a) == View(b);
    }
  };

  static Edge MakeEdge(PrefixNode parent, std::string_view salt, absl::Span<const TokenId> tokens);
  Edge EdgeOf(KvBlockId block) const;
  PrefixNode PublishEdge(const Edge& edge, KvBlockId block);
  // A prefix's number modulo total_blocks() is its last block; the quotient increases, so that no number
  // repeats.
  PrefixNode NodeOf(int64_t number, KvBlockId block) const { return number * total_blocks() + block; }
  State& StateOf(KvBlockId block) { return states_[static_cast<size_t>(block)]; }
  const State& StateOf(KvBlockId block) const { return states_[static_cast<size_t>(block)]; }
  TokenId* TokensOf(KvBlockId block) const {
    return tokens_.get() + static_cast<size_t>(block) * static_cast<size_t>(block_tokens_);
  }

  const int block_tokens_;
  std::vector<State> states_;                          // [block]
  std::unique_ptr<TokenId[]> tokens_;                  // [block][block_tokens] of named blocks
  absl::flat_hash_map<KvBlockId, std::string> salts_;  // of named blocks whose edge has a salt
  std::vector<KvBlockId> blank_;                       // a stack, so that recently used memory is reused
  std::set<std::pair<uint64_t, KvBlockId>> idle_;      // by State::released
  absl::flat_hash_set<KvBlockId, EdgeHash, EdgeEqual> named_;
  int64_t names_given_ = 0;
  uint64_t clock_ = 0;
  uint64_t unpublished_count_ = 0;
};

}  // namespace numoe::engine
