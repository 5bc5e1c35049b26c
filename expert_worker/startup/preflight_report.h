// --preflight: what is wrong with this machine for the workers that these flags would start on it.
//
// Without --model the machine's settings alone; with it the memory of the workers, too: the same homes and
// the same needs as a start would find (slice_needs.h, fleet.h), so that a start is refused by what is said
// here. Reads, and changes nothing but what preflight/preflight.h says. Main thread. Errors are the flags'
// and the checkpoint's.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "expert_worker/startup/worker_options.h"

namespace numoe::worker {

struct PreflightReport {
  std::string text;  // a line for each finding
  bool good = true;  // all of them are
};

absl::StatusOr<PreflightReport> ReportPreflight(WorkerOptions options);

}  // namespace numoe::worker
