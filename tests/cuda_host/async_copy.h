// cp.async on the host: copies from global to shared memory that complete when they are issued, when they are
// waited for, or in between.
//
// PTX ISA, "cp.async": a copy belongs to the issuing thread's next committed group; waiting for all groups
// except the last N makes the earlier ones visible to the issuing thread only, and other threads need a
// barrier in addition. With late delivery the target holds poison until the wait, and the source is read at
// that time, so both a missing wait and a source that is reused too early give wrong results. Compiled with
// instrumentation, because these are the kernel's own accesses.
#pragma once

#include "tests/cuda_host/machine.h"

namespace numoe::cuda_host {

/// `bytes` is 4, 8 or 16, and both addresses are multiples of it; only `source_bytes` of the source are read,
/// and the rest of the target becomes zero.
void IssueCopy(void* target, const void* source, int bytes, int source_bytes, Place place);
void CommitCopies();
/// Completes all committed groups of the caller except the last `groups`; uncommitted copies stay in flight.
void WaitCopies(int groups);
/// cp.async.wait_all: completes committed and uncommitted copies.
void WaitAllCopies();

}  // namespace numoe::cuda_host
