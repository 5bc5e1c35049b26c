// BlockPool: who uses which KV cache block, and which blocks still hold a prefix that somebody may ask for
// again.
//
// The cache is a fixed number of blocks of block_tokens rows. A block is *held* by one or more sequences,
// *idle* (held by nobody, but its rows are those of a known prefix) or *blank*. A full block can be published
// under (the prefix before it, its tokens); whoever comes with the same beginning holds the same block
// instead of computing it again. Prefixes form a tree whose edges are whole blocks of tokens, compared token
// by token, so that no two prompts are ever taken for each other. Idle blocks go, least recently used first,
// when no blank one is left. Wrong releases are broken invariants and CHECK. Owned by the engine thread.
// Invariants are in coordinator/kvcache/CONTRACT.md. After vLLM's automatic prefix caching and SGLang's radix
// cache.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe {

/// A prefix of whole blocks; never used again for another prefix.
using PrefixNode = int64_t;
inline constexpr PrefixNode kEmptyPrefix = 0;

class BlockPool {
 public:
  BlockPool(int blocks, int block_tokens);

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
  /// The prefix `tokens` behind `parent`, if a block holds it.
  std::optional<PrefixNode> Find(PrefixNode parent, std::string_view salt,
                                 absl::Span<const TokenId> tokens) const;
  /// The block that ends `node`, or nullopt once it has been taken away.
  std::optional<KvBlockId> BlockOf(PrefixNode node) const;
  /// How many names were taken away so far: as long as it stays, every BlockOf stays.
  uint64_t names_lost() const { return names_lost_; }
  /// Takes the name away from a block whose rows cannot be trusted.
  void Forget(KvBlockId block);
  /// Takes all names away: nothing computed before is used again.
  void ForgetAll();

  int holders(KvBlockId block) const { return holders_[static_cast<size_t>(block)]; }
  int free_blocks() const { return static_cast<int>(blank_.size() + idle_.size()); }
  int idle_blocks() const { return static_cast<int>(idle_.size()); }
  int used_blocks() const { return total_blocks() - free_blocks(); }
  int total_blocks() const { return static_cast<int>(holders_.size()); }
  int block_tokens() const { return block_tokens_; }
  /// Blocks that hold `tokens` tokens.
  int BlocksFor(int64_t tokens) const {
    return static_cast<int>((tokens + block_tokens_ - 1) / block_tokens_);
  }
  /// CHECKs that every block is in exactly one state and every name leads to its block.
  void CheckInvariants() const;

 private:
  struct Edge {
    PrefixNode parent = kEmptyPrefix;
    std::string salt;  // of edges from the empty prefix
    std::vector<TokenId> tokens;
  };
  struct EdgeView {
    PrefixNode parent = kEmptyPrefix;
    std::string_view salt;
    absl::Span<const TokenId> tokens;
  };
  struct EdgeHash {
    using is_transparent = void;
    size_t operator()(const Edge& e) const { return (*this)(EdgeView{e.parent, e.salt, e.tokens}); }
    size_t operator()(const EdgeView& e) const;
  };
  struct EdgeEqual {
    using is_transparent = void;
    static EdgeView View(const Edge& e) { return {e.parent, e.salt, e.tokens}; }
    static EdgeView View(const EdgeView& e) { return e; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      const EdgeView x = View(a), y = View(b);
      return x.parent == y.parent && x.salt == y.salt && x.tokens == y.tokens;
    }
  };

  struct Place {
    KvBlockId block = 0;
    const Edge* edge = nullptr;  // the key in edges_
  };

  static EdgeView MakeEdge(PrefixNode parent, std::string_view salt, absl::Span<const TokenId> tokens) {
    return {parent, parent == kEmptyPrefix ? salt : std::string_view(), tokens};
  }

  const int block_tokens_;
  std::vector<int> holders_;                       // [block]
  std::vector<PrefixNode> names_;                  // [block]; kEmptyPrefix: none
  std::vector<uint64_t> released_;                 // [block] when it went idle
  std::vector<KvBlockId> blank_;                   // a stack: recently used memory is used again
  std::set<std::pair<uint64_t, KvBlockId>> idle_;  // by released_
  absl::node_hash_map<Edge, PrefixNode, EdgeHash, EdgeEqual> edges_;
  absl::flat_hash_map<PrefixNode, Place> places_;
  PrefixNode last_node_ = kEmptyPrefix;
  uint64_t clock_ = 0;
  uint64_t names_lost_ = 0;
};

}  // namespace numoe
