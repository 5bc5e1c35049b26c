// WorkerStatus: what is known about each worker. CheckFits: whether a worker fits to the others.
//
// The sum of a layer has one part from every slice. The sums would be wrong, without any error, if two
// workers had the same slice, if the workers sliced the model in different ways, or if slices were made for
// another number of workers. And a worker that computes in other numeric formats than before would continue a
// text differently. So a worker is checked each time that it connects, not only at the start, and one that
// does not fit is not used. Values and a pure function; any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/execution/transport/worker_link.h"

namespace numoe::execution {

struct WorkerStatus {
  std::string address;
  bool up = false;
  WorkerIdentity identity;  // of the last session
  std::string error;        // why it is not up
};

/// Returns OK if worker `index` of `workers`, which has an entry for each address of --workers, fits. Its
/// slice must fit to the slices of the other workers that are up. Its numeric formats must equal those of all
/// workers, also of those that are down and of its own last session, while answers are being generated that
/// began with them. Otherwise returns FAILED_PRECONDITION with what was found, what was expected and what to
/// do, without the name of the worker itself.
absl::Status CheckFits(const WorkerIdentity& found, size_t index, absl::Span<const WorkerStatus> workers);

}  // namespace numoe::execution
