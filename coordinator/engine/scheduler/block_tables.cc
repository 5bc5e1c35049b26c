#include "coordinator/engine/scheduler/block_tables.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace numoe::engine {

absl::Span<const TokenId> BlockTables::BlockTokens(const Sequence& s, size_t block) const {
  const auto size = static_cast<size_t>(pool_.block_tokens());
  NUMOE_DCHECK_LE((block + 1) * size, s.tokens.size());
  return absl::MakeConstSpan(s.tokens).subspan(block * size, size);
}

void BlockTables::FindPrefix(Sequence& s) const {
  NUMOE_DCHECK(s.kv.blocks.empty() && s.kv.cached == 0) << "sequence " << s.id;
  if (!prefix_caching_) return;
  if (s.unscored() > 0) return s.kv.prefixes.clear();  // the probabilities need every token's logits
  const size_t most = (s.tokens.size() - 1) / static_cast<size_t>(pool_.block_tokens());
  s.kv.prefixes.resize(std::min(s.kv.prefixes.size(), most));
  if (std::exchange(s.kv.prefixes_known_at, pool_.unpublished_count()) != pool_.unpublished_count()) {
    const auto gone = std::find_if(s.kv.prefixes.begin(), s.kv.prefixes.end(),
                                   [&](PrefixNode node) { return !pool_.BlockOf(node); });
    s.kv.prefixes.erase(gone, s.kv.prefixes.end());
  }
  while (s.kv.prefixes.size() < most) {
    const PrefixNode parent = s.kv.prefixes.empty() ? kEmptyPrefix : s.kv.prefixes.back();
    const auto next = pool_.Find(parent, s.request.cache_salt, BlockTokens(s, s.kv.prefixes.size()));
    if (!next) break;
    s.kv.prefixes.push_back(*next);
  }
  if (fixed_chunk_tokens_ == 0) return;
  while (static_cast<int64_t>(s.kv.prefixes.size()) * pool_.block_tokens() % fixed_chunk_tokens_ != 0)
    s.kv.prefixes.pop_back();
}

int BlockTables::IdleBlocks(const Sequence& s) const {
  return static_cast<int>(std::count_if(s.kv.prefixes.begin(), s.kv.prefixes.end(), [&](PrefixNode node) {
    return pool_.holders(*pool_.BlockOf(node)) == 0;
  }));
}

void BlockTables::TakePrefix(Sequence& s) {
  NUMOE_CHECK(s.kv.blocks.empty()) << "sequence " << s.id;
  for (const PrefixNode node : s.kv.prefixes) {
    const KvBlockId block = *pool_.BlockOf(node);
    pool_.Retain(block);
    s.kv.blocks.push_back(block);
  }
  s.kv.cached = static_cast<int64_t>(s.kv.prefixes.size()) * pool_.block_tokens();
  if (!s.kv.reused) s.kv.reused = s.kv.cached;
  NUMOE_CHECK_LT(s.kv.cached, static_cast<int64_t>(s.tokens.size())) << "the last token's logits are needed";
}

void BlockTables::Grow(Sequence& s, int64_t tokens) {
  NUMOE_CHECK(s.kv.cached < tokens && tokens <= static_cast<int64_t>(s.tokens.size())) << tokens;
  while (static_cast<int>(s.kv.blocks.size()) < pool_.BlocksFor(tokens)) {
    const auto block = pool_.Allocate();
    NUMOE_CHECK(block.has_value()) << "the plan used more blocks than the pool has";
    s.kv.blocks.push_back(*block);
  }
}

void BlockTables::Computed(Sequence& s, int tokens) {
  s.kv.cached += tokens;
  NUMOE_CHECK_LE(s.kv.cached, static_cast<int64_t>(s.tokens.size()));
  NUMOE_CHECK_LE(s.kv.cached, static_cast<int64_t>(s.kv.blocks.size()) * pool_.block_tokens());
}

void BlockTables::Publish(Sequence& s) {
  if (!prefix_caching_) return;
  const auto size = static_cast<size_t>(pool_.block_tokens());
  const size_t known = s.kv.prefixes.size();
  const size_t full = static_cast<size_t>(s.kv.cached) / size;
  NUMOE_CHECK_LE(full, s.kv.blocks.size());
  if (full <= known) return;
  pool_.PublishAll(known == 0 ? kEmptyPrefix : s.kv.prefixes.back(), s.request.cache_salt,
                   absl::MakeConstSpan(s.tokens).subspan(known * size, (full - known) * size),
                   absl::MakeConstSpan(s.kv.blocks).subspan(known, full - known), s.kv.prefixes);
}

int BlockTables::SharedBlocks(const Sequence& s) const {
  return static_cast<int>(std::count_if(s.kv.blocks.begin(), s.kv.blocks.end(),
                                        [&](KvBlockId block) { return pool_.holders(block) > 1; }));
}

void BlockTables::Unpublish(const Sequence& s) {
  const auto computed = static_cast<size_t>(s.kv.reused.value_or(0) / pool_.block_tokens());
  for (size_t i = computed; i < s.kv.blocks.size(); ++i) pool_.Unpublish(s.kv.blocks[i]);
}

void BlockTables::Release(Sequence& s) {
  for (auto block = s.kv.blocks.rbegin(); block != s.kv.blocks.rend(); ++block) pool_.Release(*block);
  s.kv.blocks.clear();
  s.kv.cached = 0;
}

}  // namespace numoe::engine
