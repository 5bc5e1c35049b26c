#include "coordinator/engine/scheduler/sequence_views.h"

#include <algorithm>

namespace numoe::engine {

std::map<int, int> ActiveTenants(const std::vector<SequencePtr>& running, const TenantLines& waiting) {
  std::map<int, int> weights;
  for (const auto& [tenant, line] : waiting) weights.emplace(tenant, line.weight);
  for (const SequencePtr& s : running) {
    if (s->uncached() > 1) weights[s->request.tenant.id] = s->request.tenant.weight;
  }
  return weights;
}

int CountDecoding(const std::vector<SequencePtr>& running) {
  return static_cast<int>(
      std::count_if(running.begin(), running.end(), [](const SequencePtr& s) { return s->uncached() == 1; }));
}

std::vector<SequenceView> ViewRunning(const std::vector<SequencePtr>& running, const BlockTables& tables,
                                      const BlockPool& pool, int prompt_tokens) {
  std::vector<SequenceView> views;
  views.reserve(running.size());
  int wanted = 0;  // the most blocks that a step can need
  for (const SequencePtr& s : running) {
    const auto blocks = static_cast<int>(s->kv.blocks.size());
    const int64_t tokens = std::min<int64_t>(s->uncached(), prompt_tokens);
    wanted += std::max(0, pool.BlocksFor(s->kv.cached + tokens) - blocks);
    views.push_back({.tokens = static_cast<int64_t>(s->tokens.size()),
                     .tokens_max = s->tokens_max,
                     .cached = s->kv.cached,
                     .blocks = blocks,
                     .prompt_logits = s->unscored() > 0,
                     .tenant = s->request.tenant.id});
  }
  // If this many blocks are free, no sequence is preempted, and the planner does not need `shared`.
  if (wanted <= pool.free_blocks()) return views;
  for (size_t i = 0; i < views.size(); ++i) views[i].shared = tables.SharedBlocks(*running[i]);
  return views;
}

SequenceView ViewWaiting(Sequence& s, const BlockTables& tables, const BlockPool& pool) {
  tables.FindPrefix(s);
  const auto count = static_cast<int>(s.kv.prefixes.size());
  return {.tokens = static_cast<int64_t>(s.tokens.size()),
          .tokens_max = s.tokens_max,
          .cached = int64_t{count} * pool.block_tokens(),
          .blocks = count,
          .idle = tables.IdleBlocks(s),
          .prompt_logits = s.unscored() > 0,
          .tenant = s.request.tenant.id};
}

}  // namespace numoe::engine
