#include "coordinator/engine/kvcache/block_pool.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "common/base/check.h"

namespace numoe::engine {

BlockPool::Edge BlockPool::MakeEdge(PrefixNode parent, std::string_view salt,
                                    absl::Span<const TokenId> tokens) {
  if (parent != kEmptyPrefix) salt = {};
  return {parent, salt, tokens, absl::HashOf(parent, salt, tokens)};
}

BlockPool::Edge BlockPool::EdgeOf(KvBlockId block) const {
  const State& state = StateOf(block);
  std::string_view salt;
  if (state.parent == kEmptyPrefix) {
    const auto found = salts_.find(block);
    if (found != salts_.end()) salt = found->second;
  }
  return {state.parent, salt, {TokensOf(block), static_cast<size_t>(block_tokens_)}, state.hash};
}

BlockPool::BlockPool(int blocks, int block_tokens)
    : block_tokens_(block_tokens), named_(0, EdgeHash{this}, EdgeEqual{this}) {
  NUMOE_CHECK(blocks > 0 && block_tokens > 0) << blocks << " blocks of " << block_tokens;
  const auto count = static_cast<size_t>(blocks);
  states_.resize(count);
  tokens_ = std::make_unique<TokenId[]>(count * static_cast<size_t>(block_tokens));
  named_.reserve(count);
  blank_.reserve(count);
  for (KvBlockId block = blocks - 1; block >= 0; --block) blank_.push_back(block);
}

std::optional<KvBlockId> BlockPool::Allocate() {
  if (blank_.empty() && !idle_.empty()) Unpublish(idle_.begin()->second);
  if (blank_.empty()) return std::nullopt;
  const KvBlockId block = blank_.back();
  blank_.pop_back();
  NUMOE_CHECK_EQ(StateOf(block).holders, 0);
  StateOf(block).holders = 1;
  return block;
}

void BlockPool::Retain(KvBlockId block) {
  State& state = StateOf(block);
  if (state.holders == 0) {
    NUMOE_CHECK_NE(state.name, kEmptyPrefix) << "block " << block << " is neither held nor published";
    idle_.erase({state.released, block});
  }
  ++state.holders;
}

void BlockPool::Release(KvBlockId block) {
  NUMOE_CHECK(block >= 0 && block < total_blocks()) << "block " << block;
  State& state = StateOf(block);
  NUMOE_CHECK_GT(state.holders, 0) << "block " << block << " is released more often than held";
  if (--state.holders > 0) return;
  if (state.name == kEmptyPrefix) {
    blank_.push_back(block);
  } else {
    state.released = ++clock_;
    idle_.insert({state.released, block});
  }
}

PrefixNode BlockPool::Publish(PrefixNode parent, std::string_view salt, absl::Span<const TokenId> tokens,
                              KvBlockId block) {
  return PublishEdge(MakeEdge(parent, salt, tokens), block);
}

PrefixNode BlockPool::PublishEdge(const Edge& edge, KvBlockId block) {
  State& state = StateOf(block);
  NUMOE_CHECK_EQ(static_cast<int>(edge.tokens.size()), block_tokens_);
  NUMOE_CHECK(state.holders > 0 && state.name == kEmptyPrefix) << "block " << block << " cannot be published";
  state.parent = edge.parent;
  state.hash = edge.hash;
  std::copy(edge.tokens.begin(), edge.tokens.end(), TokensOf(block));
  if (!edge.salt.empty()) salts_[block] = std::string(edge.salt);
  const auto [known, added] = named_.insert(block);
  if (!added) {
    if (!edge.salt.empty()) salts_.erase(block);
    return StateOf(*known).name;
  }
  state.name = NodeOf(++names_given_, block);
  return state.name;
}

void BlockPool::PublishAll(PrefixNode parent, std::string_view salt, absl::Span<const TokenId> tokens,
                           absl::Span<const KvBlockId> blocks, std::vector<PrefixNode>& prefixes) {
  // A lookup in the table waits for memory. So the table entries of several names are prefetched together,
  // under the assumption that all of these names are new.
  constexpr size_t kAhead = 16;
  const auto size = static_cast<size_t>(block_tokens_);
  NUMOE_CHECK_EQ(tokens.size(), blocks.size() * size);
  Edge edges[kAhead];
  for (size_t first = 0; first < blocks.size(); first += kAhead) {
    const size_t count = std::min(kAhead, blocks.size() - first);
    PrefixNode expected = parent;
    for (size_t i = 0; i < count; ++i) {
      edges[i] = MakeEdge(expected, salt, tokens.subspan((first + i) * size, size));
      named_.prefetch(edges[i]);
      expected = NodeOf(names_given_ + static_cast<int64_t>(i) + 1, blocks[first + i]);
    }
    for (size_t i = 0; i < count; ++i) {
      if (edges[i].parent != parent) edges[i] = MakeEdge(parent, salt, edges[i].tokens);
      parent = PublishEdge(edges[i], blocks[first + i]);
      prefixes.push_back(parent);
    }
  }
}

std::optional<PrefixNode> BlockPool::Find(PrefixNode parent, std::string_view salt,
                                          absl::Span<const TokenId> tokens) const {
  const auto found = named_.find(MakeEdge(parent, salt, tokens));
  if (found == named_.end()) return std::nullopt;
  return StateOf(*found).name;
}

void BlockPool::Unpublish(KvBlockId block) {
  State& state = StateOf(block);
  if (state.name == kEmptyPrefix) return;
  named_.erase(block);
  if (state.parent == kEmptyPrefix) salts_.erase(block);
  state.name = kEmptyPrefix;
  ++unpublished_count_;
  if (idle_.erase({state.released, block}) > 0) blank_.push_back(block);
}

void BlockPool::UnpublishBySalt(std::string_view beginning) {
  for (KvBlockId block = 0; block < total_blocks(); ++block) {
    const auto salt = salts_.find(block);
    if (beginning.empty() || (salt != salts_.end() && salt->second.starts_with(beginning))) Unpublish(block);
  }
}

void BlockPool::CheckInvariants() const {
  std::vector<int> seen(states_.size(), 0);
  for (const KvBlockId block : blank_) {
    ++seen[static_cast<size_t>(block)];
    NUMOE_CHECK_EQ(StateOf(block).name, kEmptyPrefix) << "blank block " << block << " has a name";
  }
  for (const auto& [when, block] : idle_) {
    ++seen[static_cast<size_t>(block)];
    NUMOE_CHECK_NE(StateOf(block).name, kEmptyPrefix) << "idle block " << block << " has no name";
  }
  size_t named = 0;
  for (KvBlockId block = 0; block < total_blocks(); ++block) {
    const State& state = StateOf(block);
    NUMOE_CHECK_EQ(seen[static_cast<size_t>(block)], state.holders == 0 ? 1 : 0)
        << "block " << block << " is not in exactly one state";
    if (state.name == kEmptyPrefix) continue;
    ++named;
    NUMOE_CHECK(BlockOf(state.name) == block) << "block " << block;
    const auto found = named_.find(block);
    NUMOE_CHECK(found != named_.end() && *found == block) << "block " << block;
  }
  NUMOE_CHECK_EQ(named, named_.size());
  for (const auto& [block, salt] : salts_) {
    NUMOE_CHECK(StateOf(block).name != kEmptyPrefix && StateOf(block).parent == kEmptyPrefix)
        << "block " << block;
  }
}

}  // namespace numoe::engine
