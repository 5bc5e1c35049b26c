// --gpu-prefill-token-threshold: the shortest prompt, in tokens, for which the GPU fetches the experts.
//
// A number is used as it is; "auto" is measured once, when the workers are connected and before requests are
// served. If the workers do not share their experts, they compute the prompts, and the log says why; the
// server still starts, because other workers may replace them. PlanFetching is a pure function. The thread
// that will be the engine's calls FetchLongPrompts, at the start.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/weights/model_config.h"
#include "coordinator/execution/device/device.h"
#include "coordinator/execution/model/fetch_threshold.h"
#include "coordinator/execution/transport/expert_backend.h"
#include "coordinator/startup/capacity_plan.h"

namespace numoe::startup {

/// What was measured, and the threshold that follows from it.
struct FetchingPlan {
  double fetch_s = 0;  // to bring a layer's experts to the device
  execution::WorkerPace pace;
  int step_tokens = 0;  // of the largest step
  int tokens = 0;       // of the shortest prompt for which experts are fetched

  std::string ToString() const;
};
FetchingPlan PlanFetching(const execution::WorkerPace& pace, double fetch_s, int step_tokens);

/// REQUIRES: the device has windows for experts, so request.gpu_prefill is not Never.
absl::Status FetchLongPrompts(const CapacityRequest& request, const ModelConfig& config,
                              execution::ExpertBackend& experts, execution::Device& device);

}  // namespace numoe::startup
