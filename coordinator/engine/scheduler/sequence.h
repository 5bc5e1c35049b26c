// Sequence: one generation stream as the scheduler sees it.
//
// Submit creates it; after that the engine thread owns it. Its members are grouped by their writer: the
// request never changes, and each other group is written by one class, which other classes call for a change.
// `tokens` is the prompt and the output together; `kv.cached` is the number of them that have rows in the KV
// cache. Preemption sets it to 0 and keeps the tokens: the output so far is then computed again like a
// prompt, except for what the prefix cache still contains.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/engine/kvcache/block_pool.h"
#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/execution/sampling/logit_rules.h"

namespace numoe::engine {

/// The limits that a sequence must satisfy.
struct SequenceLimits {
  int64_t tokens_max = 0;              // prompt and output
  int vocab = 0;                       // ids that are not below this are never sampled
  std::vector<TokenId> eos_token_ids;  // the model's
};

struct Sequence {
  /// REQUIRES: what MakeSequence checks.
  Sequence(EngineRequest asked, const SequenceLimits& limits);

  // The request, and values that follow from it.
  const EngineRequest request;
  const int64_t prompt_tokens;
  const int64_t tokens_max;             // prompt and output; it ends when it has this many
  const std::vector<uint64_t> allowed;  // mask of allowed_token_ids; empty if all are allowed

  // Engine::Submit writes these before the scheduler gets the sequence.
  SequenceId id = 0;
  uint64_t seed = 0;
  std::chrono::steady_clock::time_point arrived;

  // Scheduler writes these.
  std::vector<TokenId> tokens;                     // prompt, then sampled tokens
  bool preempted = false;                          // leaves the running list in Scheduler::RemoveFinished
  std::optional<TokenEvent> ending;                // set when it has ended, sent by Scheduler::RemoveFinished
  std::chrono::steady_clock::time_point admitted;  // first admission; the epoch before it
  std::chrono::steady_clock::time_point first_token, last_token;  // the epoch before them

  /// Its rows in the KV cache, which BlockTables writes.
  struct KvRows {
    int64_t cached = 0;                // tokens [0, cached) have rows
    std::vector<KvBlockId> blocks;     // block table
    std::vector<PrefixNode> prefixes;  // of its first full blocks: found in the cache while it waits, then
                                       // shared or published by it
    uint64_t prefixes_known_at = 0;    // BlockPool::unpublished_count() when `prefixes` were last checked
    std::optional<int64_t> reused;     // tokens found in the prefix cache at its first admission
  };
  KvRows kv;

  /// What drawing its next token needs, and the probabilities of its prompt, which TokenDrawer writes.
  struct Drawing {
    std::unique_ptr<execution::LogitRules> rules;  // null if it has none
    std::optional<absl::StatusOr<absl::Span<const uint64_t>>>
        mask;  // the constraint's mask for the next token; empty if it allows all tokens
    std::vector<uint64_t>
        combined_mask;  // owns `mask` if it combines allowed_token_ids with the constraint's mask
    std::vector<execution::TokenLogprobs> scores;  // of the prompt, until they are sent
    int64_t scored = 0;                            // prompt tokens after the first whose probability is known
  };
  Drawing drawing;

  double turn = 0;  // the sort key of the running list, which OrderByTurns (fair_queue.h) writes

  int64_t generated() const { return static_cast<int64_t>(tokens.size()) - prompt_tokens; }
  int64_t uncached() const { return static_cast<int64_t>(tokens.size()) - kv.cached; }
  /// Whether only its prompt is to be computed.
  bool only_prompt() const { return tokens_max == prompt_tokens; }
  /// Returns how many prompt tokens still lack the probability that was asked for.
  int64_t unscored() const {
    return request.sampling.prompt_logprobs ? prompt_tokens - 1 - drawing.scored : 0;
  }
  /// Returns how many rows of logits are read if the next `count` tokens are computed: those of the last
  /// tokens.
  int LogitRows(int count) const;
  /// The order of a tenant's sequences: by priority, then by arrival.
  bool GoesBefore(const Sequence& other) const {
    return request.priority != other.request.priority ? request.priority < other.request.priority
                                                      : id < other.id;
  }
};
using SequencePtr = std::unique_ptr<Sequence>;

/// Returns a sequence without id and seed; INVALID_ARGUMENT if it does not fit, or if a sampling parameter is
/// out of range: that message begins with the parameter's name. Any thread.
absl::StatusOr<SequencePtr> MakeSequence(EngineRequest request, const SequenceLimits& limits);

}  // namespace numoe::engine
