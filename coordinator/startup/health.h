// Health and Liveness: what the coordinator answers to probes once it serves.
//
// Health is about requests: are they served now? A worker that is away makes it no. Liveness is about the
// process: would a restart help? Waiting for others, for work or for the end of a drain is life; only an
// engine thread that neither ends a turn nor a layer's call is dead. Every call is ended by its deadline,
// workers there or not (expert_fan_out.h), so that no worker can make the coordinator look dead. Pure
// functions.
#pragma once

#include <vector>

#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/execution/transport/expert_fan_out.h"
#include "coordinator/serving/api/api_deps.h"

namespace numoe::startup {

/// ready | degraded (names the workers that are down) | stuck | draining
serving::HealthReport Health(const std::vector<execution::WorkerStatus>& workers,
                             const engine::EngineStats& engine, bool draining);

/// alive | stuck. `deadline_s`: how long one turn may take between two calls of workers; what a call may take
/// itself is not counted.
serving::HealthReport Liveness(const execution::CallActivity& calls, const engine::EngineStats& engine,
                               double deadline_s);

}  // namespace numoe::startup
