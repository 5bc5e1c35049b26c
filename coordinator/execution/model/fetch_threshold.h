// Finds the number of prompt tokens at which fetching a layer's experts to the device becomes faster than
// computing them on the workers.
//
// Fetching a layer takes the same time for any number of tokens. Computing it on the device takes less than
// that, up to numbers of tokens far above the threshold. The workers take a fixed time for a call and a time
// for each token. So the threshold is the number of tokens at which the workers take as long as the fetch.
// The workers' two times are measured at the start with two calls of one layer. ChooseFetchThreshold is pure.
#pragma once

#include "absl/status/statusor.h"
#include "common/weights/model_config.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe::execution {

/// The workers take call_s + tokens * token_s seconds for one layer.
struct WorkerPace {
  double call_s = 0;
  double token_s = 0;
};

/// Times calls of the first MoE layer with random tokens, at most `tokens_max` and at least 2. The workers
/// count these calls like all others. Call it before anything else uses the backend.
absl::StatusOr<WorkerPace> MeasureWorkerPace(ExpertBackend& experts, const ModelConfig& config,
                                             int tokens_max);

/// Returns the pace that two measured calls have, the second one with more tokens.
WorkerPace PaceOf(int few_tokens, double few_s, int many_tokens, double many_s);

/// Returns the threshold in tokens, at least 2; INT_MAX if the workers are faster for any number of tokens.
int ChooseFetchThreshold(const WorkerPace& pace, double fetch_s);

}  // namespace numoe::execution
