// WorkerPlacement: the nodes and CPUs that a worker takes on this machine, and what an operator should know
// about them.
//
// SettleWorker claims the nodes if the worker must be alone on them, finds the worker's home and binds the
// whole process to it: threads that start afterwards, and what they write, are on the home's nodes. So call
// it on the main thread, before any other thread starts. FAILED_PRECONDITION and ALREADY_EXISTS say which
// condition of --pinning=required is not met.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "expert_worker/preflight/finding.h"
#include "expert_worker/preflight/pinning.h"
#include "expert_worker/startup/shared_home.h"
#include "expert_worker/startup/worker_options.h"

namespace numoe::worker {

struct WorkerPlacement {
  std::optional<NodeClaim> claim;  // nullopt if the worker need not be alone on its nodes
  std::vector<Finding> findings;   // about the pinning of the process and the settings of the machine
  std::unique_ptr<SharedHome> home;
};

absl::StatusOr<WorkerPlacement> SettleWorker(const WorkerOptions& options);

/// Returns the nodes and CPUs that the process was promised, for CheckPinning.
PinningRequest PinningFor(const WorkerOptions& options);
/// With --pinning=required: checks that the promise is kept, and returns a worker's claim on its nodes.
/// Returns nullopt for a supervisor, whose workers claim their nodes themselves, and for other values of
/// --pinning.
absl::StatusOr<std::optional<NodeClaim>> ClaimNodes(const WorkerOptions& options);

}  // namespace numoe::worker
