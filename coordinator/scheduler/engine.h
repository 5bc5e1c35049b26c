// Engine: the serving loop. Takes token-level requests, schedules them into steps, samples, streams tokens
// back.
//
// http and chat talk to this interface only. Submit is called from any thread; the callback runs on the
// engine thread and must only hand the event over (post it to the connection's executor), never block. The
// state machine, ownership and invariants are in coordinator/scheduler/CONTRACT.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "coordinator/sampling/token_constraint.h"

namespace numoe {

struct SamplingParams {
  double temperature = 1.0;  // 0: greedy
  double top_p = 1.0;
  int top_k = 0;  // 0: off
  double min_p = 0.0;
  std::optional<uint64_t> seed;  // none: drawn from the engine's generator
  int max_tokens = 16;
  std::vector<TokenId> stop_token_ids;  // besides the model's own
  bool ignore_eos = false;
};

enum class FinishReason : uint8_t { kNone, kStop, kLength, kCancelled, kError };

/// What a sequence produced in one step.
struct TokenEvent {
  SequenceId sequence = 0;
  std::vector<TokenId> tokens;       // usually one; empty in an event that only finishes
  int64_t cached_prompt_tokens = 0;  // tokens that were found in the prefix cache and not computed
  FinishReason finish = FinishReason::kNone;
  absl::Status error;  // not OK iff finish == kError
};

struct GenerateRequest {
  std::string request_id;       // for logs
  std::vector<TokenId> prompt;  // at least one token
  std::string cache_salt;       // prefixes are shared only between requests of one salt
  SamplingParams sampling;
  std::unique_ptr<TokenConstraint>
      constraint;  // null: any token. With one, the model's end tokens always end
  std::function<void(const TokenEvent&)>
      on_event;  // called until finish != kNone, and never after Cancel returned
};

struct EngineStats {
  int running = 0;
  int waiting = 0;
  int kv_blocks_used = 0;
  int kv_blocks_idle = 0;  // hold prefixes that nobody uses now; not among the used ones
  int kv_blocks_total = 0;
  bool ready = false;  // every expert slice is served
  uint64_t steps = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  /// True if a request would be queued now; asked before tokenising so that overload costs nothing.
  virtual bool HasRoom() const = 0;
  /// RESOURCE_EXHAUSTED: queue full (429). INVALID_ARGUMENT: prompt + max_tokens can never fit. UNAVAILABLE:
  /// draining.
  virtual absl::StatusOr<SequenceId> Submit(GenerateRequest request) = 0;
  /// Frees the sequence within one step. Unknown or finished ids are ignored.
  virtual void Cancel(SequenceId sequence) = 0;
  virtual EngineStats Stats() const = 0;
  /// From the next step on nothing computed before is used for new requests.
  virtual void ResetPrefixCache() = 0;
  /// Refuses new requests; running ones go on. Returns true once nothing is left, false at `deadline_ms`.
  virtual bool Drain(int64_t deadline_ms) = 0;
};

}  // namespace numoe
