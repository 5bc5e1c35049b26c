// What the coordinator's parts are told, worked out of its options, the model's config and the plan.
//
// Pure functions of values. INVALID_ARGUMENT names the flag, what was found and what the model allows.
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

/// The model's, but for its observers, its blocks and the overlap.
absl::StatusOr<execution::ModelOptions> ModelOptionsFor(const ServingOptions& options,
                                                        const ModelConfig& config);

/// ModelOptions::overlap_tokens. `gpu`: the model runs on one.
int OverlapTokens(const ServingOptions& options, bool gpu);

/// `vocab`: ids that may be sampled.
engine::EngineOptions EngineOptionsFor(const ServingOptions& options, const Capacity& capacity, int vocab,
                                       const std::vector<TokenId>& eos_token_ids);

}  // namespace numoe::startup
