// Kernels that test the execution model: right ones, and each with one of the mistakes it must find.
//
// A Mistake is compiled in as a template argument; kNone must pass under every schedule. Launched with the
// null stream unless a stream is given.
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
  kSkippedBarrier,    // some threads leave before it
  kDeadlock,          // half a warp waits at __syncwarp, the other half at __syncthreads
  kWrongMask,         // the mask does not name the caller
  kLaneMissing,       // the mask names a lane that does not come
  kDivergentShuffle,
  kSharedOverrun,
  kMisalignedCopy,
  kCopyNobodyWaitsFor,
};

/// out[i] = in[(i + 1) % 256] inside each block of 256: neighbours meet in shared memory, twice.
void LaunchRotate(Mistake mistake, const int* in, int* out, int blocks, Stream stream);
/// out[i] = sum of in over the lanes of i's warp, by shuffles and by shared memory, 64 threads.
void LaunchWarpSums(Mistake mistake, const int* in, int* out);
/// out[block] = sum of 1024 ints, staged by cp.async in two buffers of 256.
void LaunchCopySums(Mistake mistake, const int* in, int* out, int blocks);
/// Barriers and collectives that do not fit together.
void LaunchCollective(Mistake mistake, int* out);
/// out: results of every shuffle, vote and reduction word for lane values in, [words][32] (machine_test.cc).
inline constexpr int kWarpWords = 14;
void LaunchWarpWords(const int* in, int* out);
/// Waits until *flag is 1, then writes 7 to *answer.
void LaunchWaitForFlag(const uint32_t* flag, uint32_t* answer);
/// out[i] = i, through 32 KiB of static shared memory beside so much dynamic.
void LaunchShares(size_t dynamic_bytes, int* out);
/// out[i] = block * 1000 + thread for a grid of 2 x 3 blocks of 4 x 8 x 2 threads; counts visits.
void LaunchIndices(int* out);

}  // namespace numoe::execution::cuda
