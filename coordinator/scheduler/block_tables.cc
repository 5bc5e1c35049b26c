#include "coordinator/scheduler/block_tables.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace numoe {

absl::Span<const TokenId> BlockTables::BlockTokens(const Sequence& s, size_t block) const {
  const auto size = static_cast<size_t>(pool_.block_tokens());
  return absl::MakeConstSpan(s.tokens).subspan(block * size, size);
}

void BlockTables::FindPrefix(Sequence& s) const {
  if (!prefix_caching_) return;
  if (s.unscored() > 0) return s.prefixes.clear();  // its probabilities need every row computed
  const size_t most = (s.tokens.size() - 1) / static_cast<size_t>(pool_.block_tokens());
  s.prefixes.resize(std::min(s.prefixes.size(), most));
  if (std::exchange(s.prefixes_known_at, pool_.names_lost()) != pool_.names_lost()) {
    const auto gone = std::find_if(s.prefixes.begin(), s.prefixes.end(),
                                   [&](PrefixNode node) { return !pool_.BlockOf(node); });
    s.prefixes.erase(gone, s.prefixes.end());
  }
  while (s.prefixes.size() < most) {
    const PrefixNode parent = s.prefixes.empty() ? kEmptyPrefix : s.prefixes.back();
    const auto next = pool_.Find(parent, s.request.cache_salt, BlockTokens(s, s.prefixes.size()));
    if (!next) break;
    s.prefixes.push_back(*next);
  }
  if (fixed_chunk_tokens_ == 0) return;
  while (static_cast<int64_t>(s.prefixes.size()) * pool_.block_tokens() % fixed_chunk_tokens_ != 0)
    s.prefixes.pop_back();
}

int BlockTables::IdleBlocks(const Sequence& s) const {
  return static_cast<int>(std::count_if(s.prefixes.begin(), s.prefixes.end(), [&](PrefixNode node) {
    return pool_.holders(*pool_.BlockOf(node)) == 0;
  }));
}

void BlockTables::TakePrefix(Sequence& s) {
  NUMOE_CHECK(s.blocks.empty()) << "sequence " << s.id;
  for (const PrefixNode node : s.prefixes) {
    const KvBlockId block = *pool_.BlockOf(node);
    pool_.Retain(block);
    s.blocks.push_back(block);
  }
  s.cached = static_cast<int64_t>(s.prefixes.size()) * pool_.block_tokens();
  if (!s.reused) s.reused = s.cached;
}

void BlockTables::Grow(Sequence& s, int64_t tokens) {
  while (static_cast<int>(s.blocks.size()) < pool_.BlocksFor(tokens)) {
    const auto block = pool_.Allocate();
    NUMOE_CHECK(block.has_value()) << "the plan gave out more blocks than there are";
    s.blocks.push_back(*block);
  }
}

void BlockTables::Publish(Sequence& s) {
  if (!prefix_caching_) return;
  const auto size = static_cast<size_t>(pool_.block_tokens());
  const size_t known = s.prefixes.size();
  const size_t full = static_cast<size_t>(s.cached) / size;
  if (full <= known) return;
  pool_.PublishAll(known == 0 ? kEmptyPrefix : s.prefixes.back(), s.request.cache_salt,
                   absl::MakeConstSpan(s.tokens).subspan(known * size, (full - known) * size),
                   absl::MakeConstSpan(s.blocks).subspan(known, full - known), s.prefixes);
}

int BlockTables::SharedBlocks(const Sequence& s) const {
  return static_cast<int>(std::count_if(s.blocks.begin(), s.blocks.end(),
                                        [&](KvBlockId block) { return pool_.holders(block) > 1; }));
}

void BlockTables::Distrust(const Sequence& s) {
  const auto computed = static_cast<size_t>(s.reused.value_or(0) / pool_.block_tokens());
  for (size_t i = computed; i < s.blocks.size(); ++i) pool_.Forget(s.blocks[i]);
}

void BlockTables::Release(Sequence& s) {
  for (auto block = s.blocks.rbegin(); block != s.blocks.rend(); ++block) pool_.Release(*block);
  s.blocks.clear();
  s.cached = 0;
}

}  // namespace numoe
