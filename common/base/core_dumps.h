// Disables core dumps, because a crashed daemon's memory contains prompts, answers and keys.
//
// The limit is 1 byte and not 0. With 0 the kernel still gives the dump to a program that
// /proc/sys/kernel/core_pattern names (core(5); fs/coredump.c of the kernel for the 1), while no file is as
// short as 1 byte. PR_SET_DUMPABLE would have the same effect, but it gives /proc/PID to root, and the
// supervisor and operators read that. So it is used only by processes that may not set the limit: if the hard
// limit is 0 already, no process without privileges can raise it to 1. Children inherit the limit. Main
// functions call this before threads start and before there is a log, so what should be logged is returned.
#pragma once

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace numoe {

inline constexpr const char* kCoreDumpsHelp =
    "Leave core dumps to the system's settings. Without this flag there are none, because they would contain "
    "prompts and keys";

/// Applies to this process and those that it starts, permanently. PERMISSION_DENIED means that there are no
/// core dumps, but that /proc/PID belongs to root now; log its message as a warning.
inline absl::Status ForbidCoreDumps() {
  const rlimit limit = {.rlim_cur = 1, .rlim_max = 1};
  if (setrlimit(RLIMIT_CORE, &limit) == 0) return absl::OkStatus();
  const int error = errno;
  prctl(PR_SET_DUMPABLE, 0);
  return absl::PermissionDeniedError(absl::StrCat(
      "core dumps: the limit cannot be set to 1 byte: ", std::strerror(error),
      "; the process is made undumpable instead, and its /proc/PID belongs to root (to avoid that, start it "
      "with a hard limit of 1 or more, as in ulimit -H -c 1)"));
}

}  // namespace numoe
