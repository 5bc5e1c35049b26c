// Sequence: one generation stream as the scheduler sees it.
//
// Created by Submit, owned by the engine thread from then on. `tokens` is prompt and output together;
// `cached` says how many of them have rows in the KV cache. Preemption sets `cached` to 0 and keeps the
// tokens: the output so far is computed again as if it were prompt, but for what the prefix cache still has.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/kvcache/block_pool.h"
#include "coordinator/sampling/logit_rules.h"
#include "coordinator/scheduler/engine.h"

namespace numoe {

struct Sequence {
  SequenceId id = 0;
  GenerateRequest request;
  std::vector<TokenId> tokens;  // prompt, then what was sampled
  int64_t prompt_tokens = 0;
  int64_t cached = 0;                 // tokens [0, cached) have KV rows
  std::vector<KvBlockId> blocks;      // block table
  std::vector<PrefixNode> prefixes;   // of its first full blocks: while it waits what the cache has of them,
                                      // then what it shares or has published
  uint64_t prefixes_known_at = 0;     // BlockPool::names_lost() when `prefixes` were last true
  std::optional<int64_t> reused;      // tokens that the prefix cache had when it was first admitted
  std::unique_ptr<LogitRules> rules;  // null: none
  std::vector<uint64_t> allowed;      // mask of allowed_token_ids; empty: all
  std::optional<absl::StatusOr<absl::Span<const uint64_t>>>
      mask;                    // by the constraint, of the next token, once it was asked; empty: all
  std::vector<uint64_t> both;  // where `mask` lies if allowed_token_ids and the constraint both have one
  std::vector<TokenLogprobs> scores;  // of the prompt, until they are handed out
  int64_t scored = 0;                 // prompt tokens after the first whose probability is known
  bool preempted = false;             // loses its place in the running list when the step is settled
  double turn = 0;                    // its place in the running list (fair_queue.h)
  std::optional<TokenEvent> ending;   // set once it is over, handed out when the step is settled
  uint64_t seed = 0;
  std::chrono::steady_clock::time_point arrived;
  std::chrono::steady_clock::time_point admitted;  // first; the epoch: not yet
  std::chrono::steady_clock::time_point last_token;

  int64_t generated() const { return static_cast<int64_t>(tokens.size()) - prompt_tokens; }
  int64_t uncached() const { return static_cast<int64_t>(tokens.size()) - cached; }
  /// Prompt tokens whose probability is still to be told.
  int64_t unscored() const { return request.sampling.prompt_logprobs ? prompt_tokens - 1 - scored : 0; }
  /// Its place among its tenant's: by priority, then arrival.
  bool GoesBefore(const Sequence& other) const {
    return request.priority != other.request.priority ? request.priority < other.request.priority
                                                      : id < other.id;
  }
};

using SequencePtr = std::unique_ptr<Sequence>;

/// What a sequence must fit.
struct SequenceLimits {
  int64_t tokens_max = 0;              // prompt and output
  int vocab = 0;                       // ids from here on are never sampled
  std::vector<TokenId> eos_token_ids;  // the model's
};

/// A sequence without id and seed. INVALID_ARGUMENT: it does not fit, or a sampling parameter is out of
/// range; the message begins with the parameter's name. Any thread.
absl::StatusOr<SequencePtr> MakeSequence(GenerateRequest request, const SequenceLimits& limits);

}  // namespace numoe
