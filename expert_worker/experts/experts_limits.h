// Limits of loading experts, and the half-life of their statistics.
//
// Constants only, with the unit in the name: bytes, seconds or a number. The buffers of a load adapt to the
// limits: large matrices are cut into pieces, and no limit makes a load fail.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- loading ---------------------------------------------------------------------------------------------
// The size of one read, and what a thread packs at a time: large enough that a few of them keep any disk
// busy.
inline constexpr size_t kLoadChunkBytes = 2ull << 20;
inline constexpr size_t kLoadChunkBytesMin = 64ull << 10;
// The same for bytes from the page cache: small enough that they stay in the second-level cache until they
// are packed.
inline constexpr size_t kLoadCachedChunkBytes = 256ull << 10;
inline constexpr int kLoadReadsMax = 8;  // in flight for each thread
// The number of threads that wait for pages of mapped files. Each waits for 2 to 4 MiB, so 64 MiB or more are
// being read.
inline constexpr size_t kMappingThreadsMin = 32;
// The buffers of all threads together take at most this, and at most 1/32 of the slice.
inline constexpr size_t kLoadStagingBytesMax = 256ull << 20;
inline constexpr int kLoadReportSeconds = 5;  // between two lines of progress

// --- layer calls -----------------------------------------------------------------------------------------
// The half-life is longer than a conversation, and shorter than the time in which a day's topics change.
inline constexpr double kExpertHalfLifeSeconds = 600;

}  // namespace numoe::limits
