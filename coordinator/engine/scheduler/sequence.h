// Sequence: one generation stream as the scheduler sees it.
//
// Created by Submit, owned by the engine thread from then on. Its fields stand by who writes them: what was
// asked for never changes, each other part has one writer, and whoever else wants a change calls that one.
// `tokens` is prompt and output together; `kv.cached` says how many of them have rows in the KV cache.
// Preemption sets it to 0 and keeps the tokens: the output so far is computed again as if it were prompt, but
// for what the prefix cache still has.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/engine/kvcache/block_pool.h"
#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/execution/sampling/logit_rules.h"

namespace numoe::engine {

/// What a sequence must fit.
struct SequenceLimits {
  int64_t tokens_max = 0;              // prompt and output
  int vocab = 0;                       // ids from here on are never sampled
  std::vector<TokenId> eos_token_ids;  // the model's
};

struct Sequence {
  /// REQUIRES: what MakeSequence checks.
  Sequence(EngineRequest asked, const SequenceLimits& limits);

  // What was asked for, and what follows from it.
  const EngineRequest request;
  const int64_t prompt_tokens;
  const int64_t tokens_max;             // prompt and output: with so many it is over
  const std::vector<uint64_t> allowed;  // mask of allowed_token_ids; empty: all

  // Engine::Submit writes these before the scheduler has it.
  SequenceId id = 0;
  uint64_t seed = 0;
  std::chrono::steady_clock::time_point arrived;

  // Scheduler writes these.
  std::vector<TokenId> tokens;       // prompt, then what was sampled
  bool preempted = false;            // loses its place in the running list when the step is settled
  std::optional<TokenEvent> ending;  // set once it is over, handed out when the step is settled
  std::chrono::steady_clock::time_point admitted;                 // first; the epoch: not yet
  std::chrono::steady_clock::time_point first_token, last_token;  // the epoch: none yet

  /// Its rows in the KV cache, which BlockTables writes.
  struct KvRows {
    int64_t cached = 0;                // tokens [0, cached) have rows
    std::vector<KvBlockId> blocks;     // block table
    std::vector<PrefixNode> prefixes;  // of its first full blocks: while it waits what the cache has of them,
                                       // then what it shares or has published
    uint64_t prefixes_known_at = 0;    // BlockPool::names_lost() when `prefixes` were last true
    std::optional<int64_t> reused;     // tokens that the prefix cache had when it was first admitted
  };
  KvRows kv;

  /// What its next token is drawn by, and what its prompt's tokens were worth, which TokenDrawer writes.
  struct Drawing {
    std::unique_ptr<execution::LogitRules> rules;  // null: none
    std::optional<absl::StatusOr<absl::Span<const uint64_t>>>
        mask;                    // by the constraint, of the next token, once it was asked; empty: all
    std::vector<uint64_t> both;  // where `mask` lies if allowed_token_ids and the constraint both have one
    std::vector<execution::TokenLogprobs> scores;  // of the prompt, until they are handed out
    int64_t scored = 0;                            // prompt tokens after the first whose probability is known
  };
  Drawing drawing;

  double turn = 0;  // its place in the running list, which OrderByTurns (fair_queue.h) writes

  int64_t generated() const { return static_cast<int64_t>(tokens.size()) - prompt_tokens; }
  int64_t uncached() const { return static_cast<int64_t>(tokens.size()) - kv.cached; }
  /// Only its prompt was asked about.
  bool only_prompt() const { return tokens_max == prompt_tokens; }
  /// Prompt tokens whose probability is still to be told.
  int64_t unscored() const {
    return request.sampling.prompt_logprobs ? prompt_tokens - 1 - drawing.scored : 0;
  }
  /// Of the next `count` tokens that are computed, so many last ones have logits that somebody reads.
  int LogitRows(int count) const;
  /// Its place among its tenant's: by priority, then arrival.
  bool GoesBefore(const Sequence& other) const {
    return request.priority != other.request.priority ? request.priority < other.request.priority
                                                      : id < other.id;
  }
};
using SequencePtr = std::unique_ptr<Sequence>;

/// A sequence without id and seed. INVALID_ARGUMENT: it does not fit, or a sampling parameter is out of
/// range; the message begins with the parameter's name. Any thread.
absl::StatusOr<SequencePtr> MakeSequence(EngineRequest request, const SequenceLimits& limits);

}  // namespace numoe::engine
