// WorkerPlace: the nodes and CPUs that a worker takes on this machine, and what an operator should know of
// them.
//
// SettleWorker holds the nodes where the worker must be alone on them, finds its home and keeps the whole
// process there: threads that start afterwards, and what they write, are on the home's nodes. So it comes
// before any other thread. Main thread. FAILED_PRECONDITION and ALREADY_EXISTS say what --pinning=required
// misses.
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

struct WorkerPlace {
  std::optional<NodeClaim> claim;  // nullopt: it need not be alone
  std::vector<Finding> findings;   // of the machine's settings
  std::unique_ptr<SharedHome> home;
};

absl::StatusOr<WorkerPlace> SettleWorker(const WorkerOptions& options);

/// What the process was promised, for CheckPinning.
PinningRequest PinningFor(const WorkerOptions& options);
/// With --pinning=required: that the promise is kept, and the claim of a worker on its nodes; a supervisor
/// leaves these to its workers.
absl::StatusOr<std::optional<NodeClaim>> ClaimNodes(const WorkerOptions& options);

}  // namespace numoe::worker
