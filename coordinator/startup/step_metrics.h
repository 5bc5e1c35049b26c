// The metrics that a model's observers update: the time of each part of a step, the ways of executing the
// experts, and the experts that a GPU computes.
//
// Each series is looked up once. The engine's thread calls the observers, and the metrics outlive them.
#pragma once

#include <functional>

#include "common/observe/metrics.h"
#include "coordinator/execution/device/device.h"
#include "coordinator/execution/device/step_clock.h"
#include "coordinator/execution/model/hot_experts.h"

namespace numoe::startup {

execution::StepClock::Observer ObservePartsWith(Metrics& metrics);
std::function<void(execution::ExpertExecution)> ObserveWaysWith(Metrics& metrics);
std::function<void(const execution::HotExpertsReport&)> ObserveHotExpertsWith(Metrics& metrics);

}  // namespace numoe::startup
