// From how many prompt tokens on it is faster to fetch a layer's experts to the device than to have the
// workers compute them.
//
// Fetching a layer takes its time whatever the number of tokens, and computing it there less than that until
// long after it pays; the workers take a time for each token. So the threshold is where the workers' line
// meets the fetch. Measured at start: two calls of one layer tell the line. ChooseFetchThreshold is pure.
#pragma once

#include "absl/status/statusor.h"
#include "common/weights/model_config.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe::execution {

/// Seconds of one layer: call_s + tokens * token_s.
struct WorkerPace {
  double call_s = 0;
  double token_s = 0;
};

/// Times calls of the first MoE layer with random tokens, at most `tokens_max` and at least 2. The workers
/// count them as any others. Called before anything else uses the backend.
absl::StatusOr<WorkerPace> MeasureWorkerPace(ExpertBackend& experts, const ModelConfig& config,
                                             int tokens_max);

/// The pace of two calls, the second of more tokens.
WorkerPace PaceOf(int few_tokens, double few_s, int many_tokens, double many_s);

/// At least 2; INT_MAX where the workers are faster whatever the tokens.
int ChooseFetchThreshold(const WorkerPace& pace, double fetch_s);

}  // namespace numoe::execution
