// The fleet of a supervisor: which workers its flags start on this machine, and their start.
//
// PlanFleetFor is pure but for the addresses of the workers' health where they speak TLS, which are drawn
// anew each time. RunFleet is the main thread's, which blocked the signals that end a daemon and has started
// no other thread, and returns once all workers have ended. REQUIRES: options.fleet.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/topology/topology.h"
#include "expert_worker/startup/worker_options.h"
#include "expert_worker/supervisor/fleet_plan.h"

namespace numoe::worker {

absl::StatusOr<FleetPlan> PlanFleetFor(const WorkerOptions& options, const Topology& topology);

/// `arguments`: this process's own, without the program. Errors are the flags', the addresses', the machine's
/// and those of Supervise.
absl::Status RunFleet(const WorkerOptions& options, const std::vector<std::string>& arguments);

}  // namespace numoe::worker
