#include "coordinator/startup/part_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/transport/transport_limits.h"
#include "coordinator/engine/scheduler/scheduler_limits.h"
#include "coordinator/execution/device/kv_block.h"
#include "coordinator/execution/model/step_overlap.h"
#include "coordinator/startup/serving_flags.h"

namespace numoe::startup {
namespace {

constexpr int kDeterministicChunkTokens = 128;

static_assert(kDeterministicChunkTokens <= limits::kDeferringTokensMax);
static_assert(kThresholdTokensMin == execution::kOverlapTokensMin,
              "the smallest step that the flag allows can be split");

}  // namespace

// Without a number from the operator, splitting is tried only if the device and the workers compute on
// different processors: a CPU that computes both gains nothing from alternating.
int OverlapTokens(const ServingOptions& options, bool gpu) {
  if (IsNever(options.overlap)) return execution::kNoOverlap;
  if (const auto* const from = std::get_if<FromTokens>(&options.overlap)) {
    NUMOE_CHECK_GE(from->tokens, execution::kOverlapTokensMin) << "the flag allows no smaller number";
    return from->tokens;
  }
  const std::vector<std::string>& workers = options.workers.addresses;
  const bool apart = gpu || !std::all_of(workers.begin(), workers.end(), IsUnixAddress);
  return apart ? execution::kMeasuredOverlap : execution::kNoOverlap;
}

absl::StatusOr<execution::ModelOptions> ModelOptionsFor(const ServingOptions& options,
                                                        const ModelConfig& config) {
  if (options.deferred_experts > 0 && options.deferred_experts >= config.experts_per_token) {
    return absl::InvalidArgumentError(fmt::format(
        "--max-deferred-experts-per-token={}: the model has {} experts per token, expected 0 to {}",
        options.deferred_experts, config.experts_per_token, std::max(config.experts_per_token - 1, 0)));
  }
  return execution::ModelOptions{
      .kv_cache_type = options.capacity.kv_type,
      .logit_rows_max = options.capacity.sequences_max + limits::kPromptLogitRowsMax,
      .deferred_experts = options.deferred_experts,
      .defer_always = options.deterministic};
}

engine::EngineOptions EngineOptionsFor(const ServingOptions& options, const Capacity& capacity, int vocab,
                                       const std::vector<TokenId>& eos_token_ids) {
  const CapacityRequest& asked = options.capacity;
  NUMOE_CHECK_LE(capacity.model_len, int64_t{capacity.kv_blocks} * execution::kKvBlockTokens)
      << "no sequence is longer than the whole cache";
  NUMOE_CHECK(options.prefix_caching || !options.share_prefix_cache) << "there is nothing to share";
  NUMOE_CHECK(!options.deterministic || options.deferred_experts == 0 ||
              asked.step_tokens <= limits::kDeferringTokensMax)
      << asked.step_tokens << " tokens in a step that defers";
  NUMOE_CHECK_GE(asked.step_tokens, asked.sequences_max);
  // A chunk fits into a step in which all other sequences decode.
  const int chunk_tokens = std::min(kDeterministicChunkTokens, asked.step_tokens - asked.sequences_max + 1);
  NUMOE_CHECK_GE(chunk_tokens, 1);
  return {.limits = {.sequences_max = asked.sequences_max,
                     .step_tokens = asked.step_tokens,
                     .fixed_chunk_tokens = options.deterministic ? chunk_tokens : 0},
          .kv_blocks = capacity.kv_blocks,
          .queue_max = options.queue_max,
          .max_model_len = capacity.model_len,
          .vocab = vocab,
          .eos_token_ids = eos_token_ids,
          .worker_deadline_ms = options.worker_deadline_ms,
          .deterministic = options.deterministic,
          .prefix_caching = options.prefix_caching,
          .decode_stretch_max = options.decode_stretch_max};
}

}  // namespace numoe::startup
