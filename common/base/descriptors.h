// How many files and connections this process may have open.
//
// Shells and service managers often set the limit to 1024, which a thousand streams of a server exhaust, but
// the process may raise it. Main functions call this before threads start.
#pragma once

#include <sys/resource.h>

#include <algorithm>

#include "common/base/limits.h"

namespace numoe {

/// Raises the limit as far as this process may without privileges, to at most limits::kDescriptorsMax, and
/// returns the new limit; 0 if the kernel does not tell it.
inline rlim_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, limits::kDescriptorsMax));
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace numoe
