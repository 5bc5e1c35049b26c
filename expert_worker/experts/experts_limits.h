// Limits of loading experts, and the half-life of their statistics.
//
// Constants only, with the unit in the name: bytes, seconds, or how many. The buffers of a load adapt to
// them: large matrices are cut into pieces, and no limit makes a load fail.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- loading ---------------------------------------------------------------------------------------------
// One read, and what one thread packs at a time: large enough that any disk is busy with a few of them.
inline constexpr size_t kLoadChunkBytes = 2ull << 20;
inline constexpr size_t kLoadChunkBytesMin = 64ull << 10;
// The same where the bytes come from the page cache: they stay in the second-level cache until they are
// packed.
inline constexpr size_t kLoadCachedChunkBytes = 256ull << 10;
inline constexpr int kLoadReadsMax = 8;  // in flight for each thread
// Threads that wait for pages of mapped files, each for 2 to 4 MiB: 64 MiB or more are under way.
inline constexpr size_t kMappingThreadsMin = 32;
// Buffers of all threads together: no more than this, and no more than 1/32 of the slice.
inline constexpr size_t kLoadStagingBytesMax = 256ull << 20;
inline constexpr int kLoadReportSeconds = 5;  // between two lines of progress

// --- layer calls -----------------------------------------------------------------------------------------
// Long against a conversation, short against a day's change of what people ask.
inline constexpr double kExpertHalfLifeSeconds = 600;

}  // namespace numoe::limits
