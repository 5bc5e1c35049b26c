// Kernels that test the execution model: correct ones, and variants with the mistakes that it must find.
//
// A Mistake is a template argument of the kernel; with kNone it must pass under every schedule. Kernels are
// launched on the null stream unless a stream is given.
#pragma once

#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

enum class Mistake {
  kNone,
  kMissingSyncthreads,      // between writing and reading shared memory
  kMissingSyncBeforeReuse,  // shared memory is overwritten while others still read it
  kMissingSyncwarp,         // lanes exchange through shared memory
  kMissingCopyWait,
  kMissingBarrierAfterCopy,
  kUnwrittenShared,
  kDivergentBarrier,  // two branches, each with its own __syncthreads
  kSkippedBarrier,    // some threads exit before it
  kDeadlock,          // half a warp waits at __syncwarp, the other half at __syncthreads
  kWrongMask,         // the mask does not name the caller
  kLaneMissing,       // the mask names a lane that does not call the operation
  kDivergentShuffle,
  kSharedOverrun,
  kMisalignedCopy,
  kCopyNobodyWaitsFor,
};

/// out[i] = in[(i + 1) % 256] in each block of 256 threads, which exchange values in shared memory twice.
void LaunchRotate(Mistake mistake, const int* in, int* out, int blocks, Stream stream);
/// out[i] = sum of in over the lanes of i's warp, by shuffles and by shared memory, with 64 threads.
void LaunchWarpSums(Mistake mistake, const int* in, int* out);
/// out[block] = sum of 1024 ints, staged by cp.async in two buffers of 256.
void LaunchCopySums(Mistake mistake, const int* in, int* out, int blocks);
/// Barriers and collective operations that contradict each other.
void LaunchCollective(Mistake mistake, int* out);
/// out = the results of every shuffle, vote and reduction for lane values in: [words][32] (machine_test.cc).
inline constexpr int kWarpWords = 14;
void LaunchWarpWords(const int* in, int* out);
/// Waits until *flag is 1, then writes 7 to *answer.
void LaunchWaitForFlag(const uint32_t* flag, uint32_t* answer);
/// out[i] = i, through 32 KiB of static and `dynamic_bytes` of dynamic shared memory.
void LaunchShares(size_t dynamic_bytes, int* out);
/// out[i] = block * 1000 + thread for a grid of 2 x 3 blocks of 4 x 8 x 2 threads; counts visits.
void LaunchIndices(int* out);

}  // namespace numoe::execution::cuda
