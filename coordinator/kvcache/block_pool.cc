#include "coordinator/kvcache/block_pool.h"

#include "absl/hash/hash.h"
#include "common/base/check.h"

namespace numoe {

size_t BlockPool::EdgeHash::operator()(const EdgeView& e) const {
  return absl::HashOf(e.parent, e.salt, e.tokens);
}

BlockPool::BlockPool(int blocks, int block_tokens)
    : block_tokens_(block_tokens),
      holders_(static_cast<size_t>(blocks), 0),
      names_(static_cast<size_t>(blocks), kEmptyPrefix),
      released_(static_cast<size_t>(blocks), 0) {
  NUMOE_CHECK(blocks > 0 && block_tokens > 0) << blocks << " blocks of " << block_tokens;
  for (KvBlockId block = blocks - 1; block >= 0; --block) blank_.push_back(block);
}

std::optional<KvBlockId> BlockPool::Allocate() {
  if (blank_.empty() && !idle_.empty()) Forget(idle_.begin()->second);
  if (blank_.empty()) return std::nullopt;
  const KvBlockId block = blank_.back();
  blank_.pop_back();
  NUMOE_CHECK_EQ(holders_[static_cast<size_t>(block)], 0);
  holders_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::Retain(KvBlockId block) {
  const auto b = static_cast<size_t>(block);
  if (holders_[b] == 0) {
    NUMOE_CHECK_NE(names_[b], kEmptyPrefix) << "block " << block << " holds no prefix";
    idle_.erase({released_[b], block});
  }
  ++holders_[b];
}

void BlockPool::Release(KvBlockId block) {
  NUMOE_CHECK(block >= 0 && block < total_blocks()) << "block " << block;
  const auto b = static_cast<size_t>(block);
  NUMOE_CHECK_GT(holders_[b], 0) << "block " << block << " is released once too often";
  if (--holders_[b] > 0) return;
  if (names_[b] == kEmptyPrefix) {
    blank_.push_back(block);
  } else {
    released_[b] = ++clock_;
    idle_.insert({released_[b], block});
  }
}

PrefixNode BlockPool::Publish(PrefixNode parent, std::string_view salt, absl::Span<const TokenId> tokens,
                              KvBlockId block) {
  const auto b = static_cast<size_t>(block);
  NUMOE_CHECK_EQ(static_cast<int>(tokens.size()), block_tokens_);
  NUMOE_CHECK(holders_[b] > 0 && names_[b] == kEmptyPrefix) << "block " << block << " cannot be named";
  if (const std::optional<PrefixNode> known = Find(parent, salt, tokens)) return *known;
  const EdgeView view = MakeEdge(parent, salt, tokens);
  Edge edge{parent, std::string(view.salt), {tokens.begin(), tokens.end()}};
  const auto added = edges_.emplace(std::move(edge), ++last_node_).first;
  places_[last_node_] = {block, &added->first};
  names_[b] = last_node_;
  return last_node_;
}

std::optional<PrefixNode> BlockPool::Find(PrefixNode parent, std::string_view salt,
                                          absl::Span<const TokenId> tokens) const {
  const auto found = edges_.find(MakeEdge(parent, salt, tokens));
  if (found == edges_.end()) return std::nullopt;
  return found->second;
}

std::optional<KvBlockId> BlockPool::BlockOf(PrefixNode node) const {
  const auto found = places_.find(node);
  if (found == places_.end()) return std::nullopt;
  return found->second.block;
}

void BlockPool::Forget(KvBlockId block) {
  const auto b = static_cast<size_t>(block);
  const auto place = places_.find(names_[b]);
  if (place == places_.end()) return;
  edges_.erase(edges_.find(*place->second.edge));
  places_.erase(place);
  names_[b] = kEmptyPrefix;
  ++names_lost_;
  if (idle_.erase({released_[b], block}) > 0) blank_.push_back(block);
}

void BlockPool::ForgetAll() {
  for (KvBlockId block = 0; block < total_blocks(); ++block) Forget(block);
}

void BlockPool::CheckInvariants() const {
  std::vector<int> seen(holders_.size(), 0);
  for (const KvBlockId block : blank_) {
    ++seen[static_cast<size_t>(block)];
    NUMOE_CHECK_EQ(names_[static_cast<size_t>(block)], kEmptyPrefix)
        << "blank block " << block << " has a name";
  }
  for (const auto& [when, block] : idle_) {
    ++seen[static_cast<size_t>(block)];
    NUMOE_CHECK_NE(names_[static_cast<size_t>(block)], kEmptyPrefix)
        << "idle block " << block << " has no name";
  }
  size_t named = 0;
  for (size_t b = 0; b < holders_.size(); ++b) {
    NUMOE_CHECK_EQ(seen[b], holders_[b] == 0 ? 1 : 0) << "block " << b << " is in no or several states";
    if (names_[b] == kEmptyPrefix) continue;
    ++named;
    const auto place = places_.find(names_[b]);
    NUMOE_CHECK(place != places_.end() && place->second.block == static_cast<KvBlockId>(b)) << "block " << b;
  }
  NUMOE_CHECK(named == places_.size() && named == edges_.size()) << named << " names";
}

}  // namespace numoe
