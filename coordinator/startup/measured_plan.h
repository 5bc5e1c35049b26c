// The capacity plan of a checkpoint on a device, measured by loading the model into a device that stores
// nothing.
//
// These functions read the checkpoint's headers; they load nothing and need neither the card nor the workers.
// One thread calls them, at the start. Errors are about the checkpoint and the flags; a plan that does not
// fit is not an error here: its Check reports it.
#pragma once

#include "absl/status/statusor.h"
#include "common/weights/checkpoint.h"
#include "common/weights/model_config.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/startup/capacity_plan.h"
#include "coordinator/startup/device_choice.h"
#include "coordinator/startup/serving_options.h"

namespace numoe::startup {

/// Returns the plan without the host's available memory, which host_share.h adds. REQUIRES:
/// `model_options.kv_blocks` is 0.
absl::StatusOr<CapacityPlan> PlanOnDevice(const CapacityRequest& request, const Checkpoint& checkpoint,
                                          const ModelConfig& config,
                                          const execution::ModelOptions& model_options, DeviceChoice& choice);

/// Returns the complete plan that --plan prints, for this host or for a card of --gpu-memory.
absl::StatusOr<CapacityPlan> PlanServing(const ServingOptions& options);

}  // namespace numoe::startup
