// How many files and connections this process may have open.
//
// Shells and service managers often allow 1024, which a thousand streams of a server exhaust, while the
// process may have more if it asks. Called by main functions, before threads start.
#pragma once

#include <sys/resource.h>

#include <algorithm>

#include "common/base/limits.h"

namespace numoe {

/// Raises the limit as far as this process may without privileges, to at most limits::kDescriptorsMax;
/// returns what it is then.
inline rlim_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, limits::kDescriptorsMax));
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace numoe
