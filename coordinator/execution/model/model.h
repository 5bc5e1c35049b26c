// Model: one forward pass over a batch of sequence pieces. What the scheduler drives and what the papers
// describe.
//
// A step carries, for each sequence, some new tokens (a prompt chunk or one decode token) and the KV blocks
// its cache lives in. Forward fills the cache and returns logits for the rows that asked for them. Written
// once against the Device interface (coordinator/execution/device/device.h); routed experts are reached
// through ExpertBackend. Not thread-safe: the engine thread owns it. Replaying a failed step with the same
// StepBatch is safe: it rewrites the same KV rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/weights/checkpoint.h"
#include "common/weights/model_config.h"
#include "coordinator/execution/device/device.h"
#include "coordinator/execution/device/kv_block.h"
#include "coordinator/execution/device/step_clock.h"
#include "coordinator/execution/model/step_overlap.h"
#include "coordinator/execution/sampling/sample_spec.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe::execution {

/// One sequence's part of a step. Filled by the scheduler.
struct StepSequence {
  absl::Span<const TokenId> tokens;    // new tokens, at least one
  int64_t position = 0;                // position of tokens[0]; KV rows [0, position) are already cached
  absl::Span<const KvBlockId> blocks;  // covers ceil((position + tokens.size()) / kv_block_tokens) blocks
  int logits_last = 1;  // logits are wanted for this many last tokens (0: none, mid-prompt chunk)
  const SampleSpec* sample = nullptr;  // how a token is drawn from the last one's; null: they are wanted
                                       // on the host
};

struct StepBatch {
  std::vector<StepSequence> sequences;
  bool deterministic = false;  // no kernel choice may depend on the batch
};

/// Of the requested rows in batch order: what was drawn from them, and the logits of the others. Valid until
/// the next Forward.
struct StepLogits {
  int rows = 0;  // that nothing was drawn from: without a SampleSpec, or left to the host all the same
  int vocab_size = 0;
  absl::Span<const float> values;    // [rows, vocab_size]
  absl::Span<const DrawnRow> drawn;  // [requested rows], or empty: nothing was drawn
};

struct ModelOptions {
  int kv_block_tokens = kKvBlockTokens;
  int kv_blocks = 0;  // total KV capacity, reserved at construction
  CacheType kv_cache_type = CacheType::kBf16;
  int logit_rows_max = 0;           // in one step; 0: as many as it has tokens
  int deferred_experts = 0;         // of each token's, so many arrive one MoE layer later (decoder.h)
  bool defer_always = false;        // also in steps with more than one token of a sequence
  int overlap_tokens = kNoOverlap;  // of steps that are cut in halves, at least; or kMeasuredOverlap
  StepClock::Observer observe;      // called once for every part of every step; may be empty
  std::function<void(StepWay)> observe_way;  // called for every step that did not fail; may be empty
};

class Model {
 public:
  /// Loads everything but the routed experts onto `device`. `device` and `experts` must outlive the model.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const Checkpoint& checkpoint, const ModelConfig& config,
                                                     const ModelOptions& options, Device& device,
                                                     ExpertBackend& experts);
  virtual ~Model() = default;

  /// One step. UNAVAILABLE: a worker was lost, call again with the same batch once ExpertBackend is ready.
  /// Rows are not searched for NaN: sampling refuses them one by one, so that one sequence fails and not its
  /// batch.
  virtual absl::StatusOr<StepLogits> Forward(const StepBatch& batch) = 0;
  /// Whether it draws tokens; where it does not, no sequence of a batch has a SampleSpec.
  virtual bool CanDraw() const { return false; }
  virtual const ModelConfig& config() const = 0;
  /// Bytes of KV cache for one token over all layers.
  virtual int64_t KvBytesPerToken() const = 0;
};

}  // namespace numoe::execution
