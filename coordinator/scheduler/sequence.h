// Sequence: one generation stream as the scheduler sees it.
//
// Created by Submit, owned by the engine thread from then on. `tokens` is prompt and output together;
// `cached` says how many of them have rows in the KV cache. Preemption sets `cached` to 0 and keeps the
// tokens: the output so far is computed again as if it were prompt, but for what the prefix cache still has.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "coordinator/kvcache/block_pool.h"
#include "coordinator/model/model.h"
#include "coordinator/scheduler/engine.h"

namespace numoe {

struct Sequence {
  SequenceId id = 0;
  GenerateRequest request;
  std::vector<TokenId> tokens;  // prompt, then what was sampled
  int64_t prompt_tokens = 0;
  int64_t cached = 0;                // tokens [0, cached) have KV rows
  std::vector<KvBlockId> blocks;     // block table
  std::vector<PrefixNode> prefixes;  // of its first full blocks: while it waits what the cache has of them,
                                     // then what it shares or has published
  std::optional<int64_t> reused;     // tokens that the prefix cache had when it was first admitted
  bool preempted = false;            // loses its place in the running list when the step's plan is settled
  std::optional<TokenEvent> ending;  // set once it is over, handed out when the plan is settled
  uint64_t seed = 0;
  std::chrono::steady_clock::time_point arrived;
  std::chrono::steady_clock::time_point last_token;

  int64_t generated() const { return static_cast<int64_t>(tokens.size()) - prompt_tokens; }
  int64_t uncached() const { return static_cast<int64_t>(tokens.size()) - cached; }
};

}  // namespace numoe
