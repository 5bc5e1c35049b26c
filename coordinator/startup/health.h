// Health and Liveness: what the coordinator answers to probes once it serves.
//
// Health is about requests: are they served now? They are not while a worker is away. Liveness is about the
// process: would a restart help? A process that waits for others, for work or for the end of a drain is
// alive; it is stuck only if its engine thread ends neither a turn nor a layer call. A deadline ends every
// call, whether the workers are there or not (expert_fan_out.h), so that no worker can make the coordinator
// look stuck. These are pure functions.
#pragma once

#include <vector>

#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/execution/transport/expert_fan_out.h"
#include "coordinator/serving/api/api_deps.h"

namespace numoe::startup {

/// Returns ready, degraded (with the names of the workers that are down), stuck or draining.
serving::HealthReport Health(const std::vector<execution::WorkerStatus>& workers,
                             const engine::EngineStats& engine, bool draining);

/// Returns alive or stuck. `deadline_s` is how long one turn may take between two layer calls; the time of
/// the calls themselves does not count.
serving::HealthReport Liveness(const execution::CallActivity& calls, const engine::EngineStats& engine,
                               double deadline_s);

}  // namespace numoe::startup
