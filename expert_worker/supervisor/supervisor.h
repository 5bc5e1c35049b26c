// Supervisor: starts a fleet of workers, keeps them running, and ends with them.
//
// Meant to be process 1 of a container, and works the same under systemd or a shell: reaps whatever ends,
// starts workers again that die (restart_policy.h), kills those that hang (hang_watch.h), passes SIGTERM and
// SIGINT on and waits until all have drained, and answers for all of them on one health port: ready only
// while every worker says that it serves. Needs no privilege. Run is for the main thread, with BlockSignals
// and BlockChildSignals called before any thread started; a second thread asks the workers how they are.
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
  // After SIGTERM the workers end themselves in time; one that does not is killed.
  std::chrono::milliseconds drain_max{60'000};
};

/// Returns once all workers have ended: OK after SIGTERM or SIGINT; ABORTED with the last words of a worker
/// that could not be started; RESOURCE_EXHAUSTED where no process is to be had. `health` may be null.
absl::Status Supervise(const FleetPlan& plan, const SupervisorOptions& options, HealthServer* health);

/// Before any thread starts.
void BlockChildSignals();

}  // namespace numoe::worker
