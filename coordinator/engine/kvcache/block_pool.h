// BlockPool: who uses which KV cache block, and which blocks still hold a prefix that somebody may ask for
// again.
//
// The cache is a fixed number of blocks of block_tokens rows. A block is *held* by one or more sequences,
// *idle* (held by nobody, but its rows are those of a known prefix) or *blank*. A full block can be published
// under (the prefix before it, its tokens); whoever comes with the same beginning holds the same block
// instead of computing it again. Prefixes form a tree whose edges are whole blocks of tokens, compared token
// by token, so that no two prompts are ever taken for each other. What a block needs for that is reserved
// with the pool: naming one allocates nothing and touches three lines of memory. Idle blocks go, least
// recently used first, when no blank one is left. Wrong releases are broken invariants and CHECK. Owned by
// the engine thread. Invariants are in coordinator/engine/kvcache/CONTRACT.md. After vLLM's automatic prefix
// caching and SGLang's radix cache.
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

/// A prefix of whole blocks; never used again for another prefix.
using PrefixNode = int64_t;
inline constexpr PrefixNode kEmptyPrefix = 0;

class BlockPool {
 public:
  BlockPool(int blocks, int block_tokens);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// A block for one holder, its rows undefined; nullopt when all are held. May end an idle block's prefix.
  std::optional<KvBlockId> Allocate();
  /// One more holder of a block that is held or idle.
  void Retain(KvBlockId block);
  /// One holder less. A sequence releases its last block first, so that long prefixes go before short ones.
  void Release(KvBlockId block);

  /// Names a held block that is full with the rows of `tokens` behind `parent`; returns the prefix that ends
  /// with it. `salt` keeps the prefixes of different tenants apart (the same for every block of a sequence).
  /// If another block has that name already, it keeps it and this one stays private.
  PrefixNode Publish(PrefixNode parent, std::string_view salt, absl::Span<const TokenId> tokens,
                     KvBlockId block);
  /// The same for blocks that follow each other, appending a prefix for each; a long prompt's come at once.
  void PublishAll(PrefixNode parent, std::string_view salt, absl::Span<const TokenId> tokens,
                  absl::Span<const KvBlockId> blocks, std::vector<PrefixNode>& prefixes);
  /// The prefix `tokens` behind `parent`, if a block holds it.
  std::optional<PrefixNode> Find(PrefixNode parent, std::string_view salt,
                                 absl::Span<const TokenId> tokens) const;
  /// The block that ends `node`, or nullopt once it has been taken away.
  std::optional<KvBlockId> BlockOf(PrefixNode node) const {
    const auto block = static_cast<KvBlockId>(node % total_blocks());
    if (node == kEmptyPrefix || StateOf(block).name != node) return std::nullopt;
    return block;
  }
  /// How many names were taken away so far: as long as it stays, every BlockOf stays.
  uint64_t names_lost() const { return names_lost_; }
  /// Takes the name away from a block whose rows cannot be trusted.
  void Forget(KvBlockId block);
  /// Nothing computed before under a salt that begins so is used again; "": nothing at all. What lies behind
  /// a prefix that has lost its name is found no more, and goes when its blocks are wanted.
  void ForgetSalted(std::string_view beginning);

  int holders(KvBlockId block) const { return StateOf(block).holders; }
  int free_blocks() const { return static_cast<int>(blank_.size() + idle_.size()); }
  int idle_blocks() const { return static_cast<int>(idle_.size()); }
  int used_blocks() const { return total_blocks() - free_blocks(); }
  int total_blocks() const { return static_cast<int>(states_.size()); }
  int block_tokens() const { return block_tokens_; }
  /// Blocks that hold `tokens` tokens.
  int BlocksFor(int64_t tokens) const {
    return static_cast<int>((tokens + block_tokens_ - 1) / block_tokens_);
  }
  /// CHECKs that every block is in exactly one state and every name leads to its block.
  void CheckInvariants() const;

 private:
  // An edge of the tree of prefixes: that of a named block, or one that is looked for.
  struct Edge {
    PrefixNode parent = kEmptyPrefix;
    std::string_view salt;  // of edges from the empty prefix
    absl::Span<const TokenId> tokens;
    size_t hash = 0;

    bool operator==(const Edge& other) const {
      return hash == other.hash && parent == other.parent && salt == other.salt && tokens == other.tokens;
    }
  };
  struct State {
    PrefixNode name = kEmptyPrefix;  // kEmptyPrefix: none
    PrefixNode parent = kEmptyPrefix;
    size_t hash = 0;        // of its edge
    uint64_t released = 0;  // when it went idle
    int holders = 0;
  };
  // Blocks are found by the edges that their names stand for.
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
  // A node's remainder is its block; its quotient rises, so that no node comes twice.
  PrefixNode NodeOf(int64_t number, KvBlockId block) const { return number * total_blocks() + block; }
  State& StateOf(KvBlockId block) { return states_[static_cast<size_t>(block)]; }
  const State& StateOf(KvBlockId block) const { return states_[static_cast<size_t>(block)]; }
  TokenId* TokensOf(KvBlockId block) const {
    return tokens_.get() + static_cast<size_t>(block) * static_cast<size_t>(block_tokens_);
  }

  const int block_tokens_;
  std::vector<State> states_;                          // [block]
  std::unique_ptr<TokenId[]> tokens_;                  // [block][block_tokens] of named ones
  absl::flat_hash_map<KvBlockId, std::string> salts_;  // of named ones whose edge has one
  std::vector<KvBlockId> blank_;                       // a stack: recently used memory is used again
  std::set<std::pair<uint64_t, KvBlockId>> idle_;      // by State::released
  absl::flat_hash_set<KvBlockId, EdgeHash, EdgeEqual> named_;
  int64_t names_given_ = 0;
  uint64_t clock_ = 0;
  uint64_t names_lost_ = 0;
};

}  // namespace numoe::engine
