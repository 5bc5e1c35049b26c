// Engine: the serving loop. Takes token-level requests, schedules them into steps, samples, streams tokens
// back.
//
// The serving storey talks to this interface only. Submit is called from any thread; the callback runs on the
// engine thread and must only hand the event over (post it to the connection's executor), never block. The
// state machine, ownership and invariants are in coordinator/engine/scheduler/CONTRACT.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "coordinator/engine/scheduler/tenant_lines.h"
#include "coordinator/execution/sampling/logprobs.h"
#include "coordinator/execution/sampling/token_constraint.h"

namespace numoe::engine {

struct SamplingParams {
  double temperature = 1.0;  // 0: greedy
  double top_p = 1.0;
  int top_k = 0;  // 0: off
  double min_p = 0.0;
  std::optional<uint64_t> seed;         // none: drawn from the engine's generator
  std::optional<int> max_tokens = 16;   // of the answer; none: as many as the context has room for; 0: only
                                        // the prompt is computed
  std::vector<TokenId> stop_token_ids;  // besides the model's own
  bool ignore_eos = false;
  // OpenAI's, over generated tokens, and vLLM's, over prompt and output
  // (coordinator/execution/sampling/logit_rules.h).
  double frequency_penalty = 0;
  double presence_penalty = 0;
  double repetition_penalty = 1;
  std::vector<std::pair<TokenId, float>> logit_bias;
  int min_tokens = 0;  // the model's end and stop_token_ids come after so many tokens at the earliest, unless
                       // a constraint allows nothing else
  std::vector<TokenId> allowed_token_ids;  // empty: all
  // Set: the log-probability of each token and of so many most likely ones (0 to kLogprobsMax), by the
  // model's raw distribution: before penalties, biases, constraints and temperature.
  std::optional<int> logprobs;
  std::optional<int> prompt_logprobs;  // the same for the prompt, which then is computed from its beginning
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };

/// What a sequence produced in one step.
struct TokenEvent {
  SequenceId sequence = 0;
  std::vector<TokenId> tokens;  // usually one; empty in an event that only finishes; with kStop the last one
                                // is the end or stop token
  int64_t cached_prompt_tokens = 0;  // tokens that were found in the prefix cache and not computed
  FinishReason finish = FinishReason::kNone;
  absl::Status error;                                     // not OK iff finish == kError
  std::vector<execution::TokenLogprobs> logprobs;         // [tokens] if the request asked for them
  std::vector<execution::TokenLogprobs> prompt_logprobs;  // [prompt tokens - 1], of all but the first; in the
                                                          // first event with tokens, if asked for
  std::chrono::steady_clock::time_point admitted;  // when it left the queue first; the epoch: it never did
};

/// Whose a request is. Tenants share the engine by their weights; priorities order the requests of one.
struct Tenant {
  int id = 0;
  int weight = 1;    // from 1 on
  std::string name;  // its label in the metrics; "": it has none
};

struct EngineRequest {
  std::string request_id;       // for logs
  std::vector<TokenId> prompt;  // at least one token
  std::string cache_salt;       // prefixes are shared only between requests of one salt
  SamplingParams sampling;
  std::unique_ptr<execution::TokenConstraint>
      constraint;  // null: any token. With one that ends the text, the model's end tokens always end
  std::function<void(const TokenEvent&)>
      on_event;  // on the engine's thread until finish != kNone, or the engine has taken a Cancel
  Tenant tenant;
  int priority = 0;  // among its tenant's: lower first; equal ones in order of arrival
  std::optional<std::chrono::steady_clock::time_point>
      deadline;  // the request ends with DEADLINE_EXCEEDED at the first step's end from then on
};

/// As of the last step's end. Counters count from the start.
struct EngineStats {
  int running = 0;
  int waiting = 0;
  int kv_blocks_used = 0;
  int kv_blocks_idle = 0;  // hold prefixes that nobody uses now; not among the used ones
  int kv_blocks_total = 0;
  bool ready = false;  // every expert slice is served
  uint64_t steps = 0;
  double stalled_s = 0;  // since the last step's end (or since there is something to do); 0 when idle
  double turn_s = 0;     // the same for turns: steps, also lost ones, and slices of waiting for a lost worker
  double last_step_s = 0;
  int last_step_tokens = 0;
  uint64_t tokens_computed = 0;  // through the model, prompts and what is computed again included
  uint64_t tokens_generated = 0;
  uint64_t preemptions = 0;
  uint64_t prefix_query_tokens = 0;  // of admitted sequences
  uint64_t prefix_hit_tokens = 0;    // those of them that were in the prefix cache
};

class Engine {
 public:
  virtual ~Engine() = default;
  /// True if a request of this tenant would be queued behind those that `come`; asked before tokenising so
  /// that overload costs nothing.
  virtual bool HasRoom(const Tenant& tenant, const TenantLines& come) const = 0;
  /// RESOURCE_EXHAUSTED: queue full (429). INVALID_ARGUMENT: prompt + max_tokens can never fit, or a sampling
  /// parameter is out of range (the message begins with its name). UNAVAILABLE: draining.
  virtual absl::StatusOr<SequenceId> Submit(EngineRequest request) = 0;
  /// Frees the sequence within one step. Unknown or finished ids are ignored.
  virtual void Cancel(SequenceId sequence) = 0;
  virtual EngineStats Stats() const = 0;
  /// From the next step on nothing computed before is used for new requests whose cache_salt begins so.
  virtual void ResetPrefixCache(const std::string& salt_beginning) = 0;
  /// Refuses new requests; running ones go on. Returns true once nothing is left, false at `deadline_ms`.
  virtual bool Drain(int64_t deadline_ms) = 0;
};

}  // namespace numoe::engine
