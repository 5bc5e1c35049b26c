// EngineLoop: the engine thread. It takes commands, runs turns of the scheduler (scheduler.h), and sends
// events.
//
// It implements Engine (engine.h) with a Model and an ExpertBackend, which must outlive it; apart from
// ExpertBackend::Ready it calls them on the engine thread only. The destructor ends every sequence with
// kCancelled and joins the thread. The state machine is in coordinator/engine/scheduler/CONTRACT.md.
#pragma once

#include <memory>

#include "common/observe/metrics.h"
#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/engine/scheduler/scheduler.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe::engine {

std::unique_ptr<Engine> StartEngine(execution::Model& model, execution::ExpertBackend& experts,
                                    const EngineOptions& options, Metrics& metrics);

}  // namespace numoe::engine
