// No core dumps: a crashed daemon's memory has prompts, answers and keys in it.
//
// The limit is 1 byte, not 0: with 0 the kernel still hands the dump to a program that
// /proc/sys/kernel/core_pattern pipes it to (core(5), and fs/coredump.c of the kernel for the 1), while no
// file is as short as that. PR_SET_DUMPABLE would do as much, but gives /proc/PID to root, which the
// supervisor and operators read, so it is for those who may not set the limit: where it is 0 already nobody
// without privileges can raise it to 1. Children inherit the limit. Called by main functions, before threads
// start and before there is a log: what is to be said is returned.
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

/// For this process and those that it starts, for ever. PERMISSION_DENIED: there are none, but /proc/PID is
/// root's now; a warning for the log.
inline absl::Status ForbidCoreDumps() {
  const rlimit limit = {.rlim_cur = 1, .rlim_max = 1};
  if (setrlimit(RLIMIT_CORE, &limit) == 0) return absl::OkStatus();
  const int error = errno;
  prctl(PR_SET_DUMPABLE, 0);
  return absl::PermissionDeniedError(absl::StrCat(
      "core dumps: the limit cannot be set to 1 byte: ", std::strerror(error),
      "; the process is made undumpable instead, and its /proc is root's (start it with a hard limit of 1 or "
      "more, as in ulimit -H -c 1, to keep it readable)"));
}

}  // namespace numoe
