// The options of the coordinator's parts, computed from its own options, the model's config and the plan.
//
// These are pure functions of values. INVALID_ARGUMENT names the flag, what was found and what the model
// allows.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/weights/model_config.h"
#include "coordinator/engine/scheduler/scheduler.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/startup/capacity_plan.h"
#include "coordinator/startup/serving_options.h"

namespace numoe::startup {

/// Returns the model's options, except for its observers, the number of blocks and the overlap.
absl::StatusOr<execution::ModelOptions> ModelOptionsFor(const ServingOptions& options,
                                                        const ModelConfig& config);

/// Returns ModelOptions::overlap_tokens. `gpu` says whether the model runs on a GPU.
int OverlapTokens(const ServingOptions& options, bool gpu);

/// `vocab` is the number of token ids that may be sampled, from 0.
engine::EngineOptions EngineOptionsFor(const ServingOptions& options, const Capacity& capacity, int vocab,
                                       const std::vector<TokenId>& eos_token_ids);

}  // namespace numoe::startup
