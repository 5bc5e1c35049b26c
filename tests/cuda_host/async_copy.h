// cp.async of the host twin: copies from global to shared memory that land at the issue, at the wait or
// between.
//
// PTX ISA, "cp.async": a copy belongs to the issuing thread's next committed group; waiting for all but the
// last N groups makes the earlier ones visible to the issuing thread only, others need a barrier on top.
// Under late delivery the target holds poison until the wait and the source is read then, so a missing wait
// and a reused source both give wrong results. Compiled with instrumentation: these are the kernel's own
// accesses.
#pragma once

#include "tests/cuda_host/machine.h"

namespace numoe::cuda_host {

/// `bytes` is 4, 8 or 16, and both addresses are multiples of it; of the source only `source_bytes` are read,
/// the rest of the target becomes zero.
void IssueCopy(void* target, const void* source, int bytes, int source_bytes, Place place);
void CommitCopies();
/// Lands all but the caller's last `groups` committed groups; uncommitted copies stay in flight.
void WaitCopies(int groups);
/// cp.async.wait_all: lands committed and uncommitted ones.
void WaitAllCopies();

}  // namespace numoe::cuda_host
