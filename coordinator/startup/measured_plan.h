// The capacity plan of a checkpoint on a device: what one that stores nothing says the model takes.
//
// Reads the checkpoint's headers; loads nothing and needs neither the card nor the workers. Called at start,
// by one thread. Errors are the checkpoint's and the flags'; that a plan does not fit is for its Check.
#pragma once

#include "absl/status/statusor.h"
#include "common/weights/checkpoint.h"
#include "common/weights/model_config.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/startup/capacity_plan.h"
#include "coordinator/startup/device_choice.h"
#include "coordinator/startup/serving_options.h"

namespace numoe::startup {

/// What is available of a host is not in it yet (host_share.h). `model_options` without blocks.
absl::StatusOr<CapacityPlan> PlanOnDevice(const CapacityRequest& request, const Checkpoint& checkpoint,
                                          const ModelConfig& config,
                                          const execution::ModelOptions& model_options, DeviceChoice& choice);

/// --plan: the whole of it, for this host or a card of --gpu-memory.
absl::StatusOr<CapacityPlan> PlanServing(const ServingOptions& options);

}  // namespace numoe::startup
