// Model: one forward pass over a batch of parts of sequences. The scheduler calls it.
//
// A step contains, for each sequence, some new tokens (a prompt chunk or one decode token) and the blocks of
// its KV cache. Forward fills the cache and returns logits for the rows for which they are requested. It is
// written once for the Device interface (coordinator/execution/device/device.h), and reaches routed experts
// through ExpertBackend. Not thread-safe: the engine thread owns it. Replaying a failed step with the same
// StepBatch is safe: it writes the same KV rows again.
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
  absl::Span<const KvBlockId> blocks;  // at least ceil((position + tokens.size()) / kv_block_tokens) blocks
  int logits_last = 1;                 // number of last tokens whose logits are requested; may be 0
  const SampleSpec* sample = nullptr;  // how to draw a token from the last token's logits; null if the host
                                       // needs these logits
};

struct StepBatch {
  std::vector<StepSequence> sequences;
  bool deterministic = false;  // no kernel choice may depend on the batch
};

/// The result for the requested rows, in batch order: tokens that were drawn, and logits of the other rows.
/// Valid until the next Forward.
struct StepLogits {
  int rows = 0;  // number of rows with logits: without a SampleSpec, or left to the host nevertheless
  int vocab_size = 0;
  absl::Span<const float> values;    // [rows, vocab_size]
  absl::Span<const DrawnRow> drawn;  // [requested rows]; empty if nothing was drawn
};

struct ModelOptions {
  int kv_block_tokens = kKvBlockTokens;
  int kv_blocks = 0;  // total KV capacity, reserved at construction
  CacheType kv_cache_type = CacheType::kBf16;
  int logit_rows_max = 0;     // in one step; 0 means the number of its tokens
  int deferred_experts = 0;   // number of each token's experts that are added one MoE layer later (decoder.h)
  bool defer_always = false;  // also in steps with more than one token of a sequence
  int overlap_tokens = kNoOverlap;  // steps of at least this size are halved; or kMeasuredOverlap
  StepClock::Observer observe;      // called once for every part of every step; may be empty
  /// Called for every step that did not fail; may be empty.
  std::function<void(ExpertExecution)> observe_expert_execution;
};

class Model {
 public:
  /// Loads all weights except the routed experts onto `device`. `device` and `experts` must outlive the
  /// model.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const Checkpoint& checkpoint, const ModelConfig& config,
                                                     const ModelOptions& options, Device& device,
                                                     ExpertBackend& experts);
  virtual ~Model() = default;

  /// Runs one step. Returns UNAVAILABLE if a worker was lost; call it again with the same batch when
  /// ExpertBackend is ready. It does not search rows for NaN: sampling refuses such rows one by one, so that
  /// only their sequences fail, not the whole batch.
  virtual absl::StatusOr<StepLogits> Forward(const StepBatch& batch) = 0;
  /// Returns whether the model draws tokens; if not, no sequence of a batch may have a SampleSpec.
  virtual bool CanDraw() const { return false; }
  virtual const ModelConfig& config() const = 0;
  /// Returns the bytes of KV cache for one token over all layers.
  virtual int64_t KvBytesPerToken() const = 0;
};

}  // namespace numoe::execution
