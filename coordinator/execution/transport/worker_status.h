// WorkerStatus: what is known of each worker, and CheckFits: whether one may serve beside the others.
//
// Each layer's sum is one part from every slice. Two workers with the same slice, slices of different ways to
// cut the model, or slices of another number of workers give sums that are wrong without a word, and one that
// computes in other formats than before gives another text, so a worker is asked what it holds each time that
// it comes, not only at the start, and one that does not fit is not used. Values and a pure function; any
// thread.
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
  std::string error;        // why it is down
};

/// Whether the worker at place `index` of `workers`, all that --workers names, fits: its slice beside the
/// slices of the others that are up, and its arithmetic beside that of all whose answers are still being
/// made, its own last session included. FAILED_PRECONDITION says what was found, what was expected and what
/// to do; it does not name the worker itself.
absl::Status CheckFits(const WorkerIdentity& found, size_t index, absl::Span<const WorkerStatus> workers);

}  // namespace numoe::execution
