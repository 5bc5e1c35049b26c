// The coordinator's share of the host's memory: what a CapacityPlan finds there, and its reservation.
//
// On the CPU a model shares the host with workers and other coordinators (common/topology/host_memory.h). On
// a GPU its memory is the card's, whose driver knows what is free: nothing is looked for or reserved, and
// what the coordinator itself holds on the host (tokenizer, requests, grammars) is small beside a worker's
// weights. Called at start, by one thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/topology/host_memory.h"
#include "coordinator/startup/capacity_plan.h"

namespace numoe::startup {

/// Says in the plan what is available and who has reserved of it, and reserves nothing. `folder` as
/// HostMemory::Look takes it.
absl::Status FindHostShare(const std::string& folder, CapacityPlan& plan);

/// The same; then logs the plan, checks it and reserves what it takes, before any other process looks.
/// RESOURCE_EXHAUSTED: it does not fit.
absl::StatusOr<MemoryReservation> ReserveHostShare(const std::string& folder, const std::string& program,
                                                   CapacityPlan& plan);

}  // namespace numoe::startup
