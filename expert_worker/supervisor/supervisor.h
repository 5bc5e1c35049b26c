// Supervisor: starts a fleet of workers, keeps them running, and ends after they have ended.
//
// It is meant to be process 1 of a container, and works the same under systemd or a shell. It reaps every
// child that ends, restarts workers that die (restart_policy.h), kills those that hang (hang_watch.h), and
// forwards SIGTERM and SIGINT, after which it waits until all workers have drained. It answers for all of
// them on one health port, which is ready only while every worker says that it serves. It needs no privilege.
// Call Supervise on the main thread, and BlockSignals and BlockChildSignals before any thread starts; a
// second thread asks the workers for their health.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "expert_worker/supervisor/fleet_plan.h"
#include "expert_worker/supervisor/hang_watch.h"
#include "expert_worker/supervisor/restart_policy.h"

namespace numoe::worker {

class HealthServer;

struct SupervisorOptions {
  std::string program;                 // absolute path
  std::vector<std::string> arguments;  // of the supervisor, without the program
  RestartLimits restarts;
  HangLimits hangs;
  // How long the workers may take to end after SIGTERM; those that take longer are killed.
  std::chrono::milliseconds drain_max{60'000};
};

/// Returns when all workers have ended: OK after SIGTERM or SIGINT; ABORTED, with the worker's last report,
/// if a worker could not be started; RESOURCE_EXHAUSTED if the system has no more processes. `health` may be
/// null.
absl::Status Supervise(const FleetPlan& plan, const SupervisorOptions& options, HealthServer* health);

/// Blocks SIGCHLD, for which Supervise waits. REQUIRES: no thread has been started yet.
void BlockChildSignals();

}  // namespace numoe::worker
