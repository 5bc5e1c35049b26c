// --preflight: reports what is wrong with this machine for the workers that these flags would start on it.
//
// Without --model it checks only the machine's settings; with --model also the memory of the workers. It
// plans the same homes and the same memory as a start does (slice_needs.h, fleet.h), so that a start is
// refused for the reasons that are reported here. It changes nothing, except what preflight/preflight.h
// names. Main thread. An error names the flag, or the file of the checkpoint, that is wrong.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "expert_worker/startup/worker_options.h"

namespace numoe::worker {

struct PreflightReport {
  std::string text;  // one line for each finding
  bool good = true;  // whether all findings are good
};

absl::StatusOr<PreflightReport> ReportPreflight(WorkerOptions options);

}  // namespace numoe::worker
