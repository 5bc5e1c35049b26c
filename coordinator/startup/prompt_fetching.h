// --gpu-prefill-token-threshold: from how many tokens on a prompt's experts come to the GPU.
//
// A number is taken as it is; "auto" is measured once, when the workers are there and before anybody is
// served. Where workers share nothing, prompts stay with them, and the log says why: others may take their
// place. PlanFetching is pure. FetchLongPrompts is called at start, by the thread that will be the engine's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/weights/model_config.h"
#include "coordinator/execution/device/device.h"
#include "coordinator/execution/model/fetch_threshold.h"
#include "coordinator/execution/transport/expert_backend.h"
#include "coordinator/startup/capacity_plan.h"

namespace numoe::startup {

/// What was measured, and what follows from it.
struct FetchingPlan {
  double fetch_s = 0;  // of a layer's experts to the device
  execution::WorkerPace pace;
  int step_tokens = 0;  // of the largest step
  int tokens = 0;       // of the shortest prompt that is fetched for

  std::string ToString() const;
};
FetchingPlan PlanFetching(const execution::WorkerPace& pace, double fetch_s, int step_tokens);

/// REQUIRES: the device has windows for experts, so request.gpu_prefill is not Never.
absl::Status FetchLongPrompts(const CapacityRequest& request, const ModelConfig& config,
                              execution::ExpertBackend& experts, execution::Device& device);

}  // namespace numoe::startup
