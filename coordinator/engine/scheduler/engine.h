// Engine: the serving loop. It takes requests as tokens, schedules them into steps, samples, and streams the
// tokens back.
//
// The serving storey uses only this interface. Submit may be called from any thread. The callback runs on the
// engine thread, and must never block: it only posts the event to the connection's executor. The state
// machine, ownership and invariants are in coordinator/engine/scheduler/CONTRACT.md.
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
  double temperature = 1.0;  // 0 means greedy
  double top_p = 1.0;
  int top_k = 0;  // 0 means off
  double min_p = 0.0;
  std::optional<uint64_t> seed;         // drawn from the engine's generator if nullopt
  std::optional<int> max_tokens = 16;   // of the answer; the rest of the context if nullopt; with 0 only the
                                        // prompt is computed
  std::vector<TokenId> stop_token_ids;  // in addition to the model's end tokens
  bool ignore_eos = false;
  // OpenAI's two penalties apply to generated tokens, vLLM's repetition penalty to prompt and output
  // (coordinator/execution/sampling/logit_rules.h).
  double frequency_penalty = 0;
  double presence_penalty = 0;
  double repetition_penalty = 1;
  std::vector<std::pair<TokenId, float>> logit_bias;
  int min_tokens = 0;  // the model's end token and stop_token_ids are forbidden before the answer has this
                       // length, unless a constraint allows nothing else
  std::vector<TokenId> allowed_token_ids;  // all tokens if empty
  // How many of the most likely tokens (0 to kLogprobsMax) get a log-probability in addition to the drawn
  // one, from the model's raw distribution: before penalties, biases, constraints and temperature. No token
  // gets one if nullopt.
  std::optional<int> logprobs;
  std::optional<int> prompt_logprobs;  // the same for the prompt, which then reuses no prefix
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };

/// What a sequence produced in one step.
struct TokenEvent {
  SequenceId sequence = 0;
  std::vector<TokenId> tokens;  // usually one; empty in an event that only finishes; with kStop the last one
                                // is an end token or a stop token
  int64_t cached_prompt_tokens = 0;  // tokens that were found in the prefix cache and not computed
  FinishReason finish = FinishReason::kNone;
  absl::Status error;                                     // not OK iff finish == kError
  std::vector<execution::TokenLogprobs> logprobs;         // [tokens] if the request asked for them
  std::vector<execution::TokenLogprobs> prompt_logprobs;  // [prompt tokens - 1] for all but the first token,
                                                          // in the first event with tokens, if asked for
  std::chrono::steady_clock::time_point admitted;  // when it first left the queue; the epoch if it never did
};

/// The owner of a request. Tenants share the engine by their weights; priorities order the requests of one
/// tenant.
struct Tenant {
  int id = 0;
  int weight = 1;    // at least 1
  std::string name;  // its label in the metrics; "" if it has none
};

struct EngineRequest {
  std::string request_id;       // for logs
  std::vector<TokenId> prompt;  // at least one token
  std::string cache_salt;       // only requests with the same salt share prefixes
  SamplingParams sampling;
  std::unique_ptr<execution::TokenConstraint>
      constraint;  // null if any token may follow; if it ends the text, the model's end tokens always end it
  std::function<void(const TokenEvent&)>
      on_event;  // called on the engine thread until finish != kNone, or until the engine handles a Cancel
  Tenant tenant;
  int priority = 0;  // among its tenant's requests: lower first, then by arrival
  std::optional<std::chrono::steady_clock::time_point>
      deadline;  // the first step that ends later ends the request with DEADLINE_EXCEEDED
};

/// The state at the end of the last step. Counters count from the start of the process.
struct EngineStats {
  int running = 0;
  int waiting = 0;
  int kv_blocks_used = 0;
  int kv_blocks_idle = 0;  // contain prefixes that no sequence uses now; not counted as used
  int kv_blocks_total = 0;
  bool ready = false;  // every expert slice is served
  uint64_t steps = 0;
  double stalled_s = 0;  // seconds since the last step ended, or since work came to an idle engine; 0 if idle
  double turn_s = 0;  // the same since the last turn: a step, a lost step, or a slice of waiting for a worker
  double last_step_s = 0;
  int last_step_tokens = 0;
  uint64_t tokens_computed = 0;  // by the model, prompts and recomputed tokens included
  uint64_t tokens_generated = 0;
  uint64_t preemptions = 0;
  uint64_t prefix_query_tokens = 0;  // looked up in the prefix cache when sequences were admitted
  uint64_t prefix_hit_tokens = 0;    // the part of them that was in the prefix cache
};

class Engine {
 public:
  virtual ~Engine() = default;
  /// Returns whether the queue would take a request of this tenant after the requests `upcoming`, which are
  /// about to be submitted. Callers ask before they tokenise a prompt, so that overload costs little.
  virtual bool HasRoom(const Tenant& tenant, const TenantLines& upcoming) const = 0;
  /// Returns RESOURCE_EXHAUSTED if the queue is full (429); INVALID_ARGUMENT if the prompt can never fit, or
  /// if a sampling parameter is out of range (the message begins with its name); UNAVAILABLE while draining.
  virtual absl::StatusOr<SequenceId> Submit(EngineRequest request) = 0;
  /// Ends the sequence and frees its blocks within one step. Unknown and finished ids are ignored.
  virtual void Cancel(SequenceId sequence) = 0;
  virtual EngineStats Stats() const = 0;
  /// Beginning with the next step, requests whose cache_salt begins with this text reuse nothing that was
  /// computed before.
  virtual void ResetPrefixCache(const std::string& salt_beginning) = 0;
  /// Refuses new requests and lets accepted ones finish. Returns true when all have ended; false after
  /// `deadline_ms`.
  virtual bool Drain(int64_t deadline_ms) = 0;
};

}  // namespace numoe::engine
