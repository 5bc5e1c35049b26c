// The metrics that a model's observers feed: where a step's time goes, which way steps take, who computes
// experts.
//
// Each series is looked up once; the observers are called by the engine's thread. The metrics outlive them.
#pragma once

#include <functional>

#include "common/observe/metrics.h"
#include "coordinator/execution/device/device.h"
#include "coordinator/execution/device/step_clock.h"
#include "coordinator/execution/model/hot_experts.h"

namespace numoe::startup {

execution::StepClock::Observer ObservePartsWith(Metrics& metrics);
std::function<void(execution::StepWay)> ObserveWaysWith(Metrics& metrics);
std::function<void(const execution::HotExpertsReport&)> ObserveHotExpertsWith(Metrics& metrics);

}  // namespace numoe::startup
