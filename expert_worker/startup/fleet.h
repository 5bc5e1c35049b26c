// The fleet of a supervisor: plans the workers that its flags start on this machine, and runs them.
//
// PlanFleetFor is a pure function, except that with TLS the addresses of the workers' health are drawn at
// random each time. Call RunFleet on the main thread, before any other thread starts, while the signals that
// end a daemon are blocked (BlockSignals). It returns once all workers have ended. REQUIRES: options.fleet is
// set.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/topology/topology.h"
#include "expert_worker/startup/worker_options.h"
#include "expert_worker/supervisor/fleet_plan.h"

namespace numoe::worker {

/// Returns the workers that these options start on a machine with this topology. Errors are those of
/// PlanFleet.
absl::StatusOr<FleetPlan> PlanFleetFor(const WorkerOptions& options, const Topology& topology);

/// Starts the workers and supervises them. `arguments`: the command line of this process without the program.
/// An error names the flag, the address or the property of the machine that is wrong, or comes from
/// Supervise.
absl::Status RunFleet(const WorkerOptions& options, const std::vector<std::string>& arguments);

}  // namespace numoe::worker
