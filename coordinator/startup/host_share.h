// The coordinator's share of the host's memory: how much is available to a CapacityPlan, and its reservation.
//
// On the CPU a model shares the host with workers and other coordinators (common/topology/host_memory.h). On
// a GPU the model takes memory of the card, whose driver knows how much is free, so these functions neither
// look at the host's memory nor reserve any; what the coordinator itself holds on the host (tokenizer,
// requests, grammars) is small in comparison with a worker's weights. One thread calls them, at the start.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/topology/host_memory.h"
#include "coordinator/startup/capacity_plan.h"

namespace numoe::startup {

/// Writes into the plan how much is available and which processes have reserved some of it. Reserves nothing.
/// `folder` is that of HostMemory::ReadReservations.
absl::Status FindHostShare(const std::string& folder, CapacityPlan& plan);

/// Does the same, then logs the plan, checks it and reserves its memory, before any other process looks.
/// RESOURCE_EXHAUSTED if it does not fit.
absl::StatusOr<MemoryReservation> ReserveHostShare(const std::string& folder, const std::string& program,
                                                   CapacityPlan& plan);

}  // namespace numoe::startup
