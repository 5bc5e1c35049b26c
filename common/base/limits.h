// Limits of several rooms that have no room but this one in common; all others are in a room's own
// *_limits.h.
//
// Constants only, with the unit in the name and where the number comes from beside it. What lies beyond one
// is refused with an error that names it, never truncated in silence. A change here recompiles many rooms: a
// limit belongs in the lowest room that all its users may include (tests/tidy/layers.txt).
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::limits {

// --- model -----------------------------------------------------------------------------------------------
inline constexpr int kLayersMax = 1'024;
inline constexpr int kExpertsPerTokenMax = 64;

// --- processes -------------------------------------------------------------------------------------------
inline constexpr int kThreadsMax = 4'096;  // compute threads; the largest hosts have 1,024 CPUs

// --- layer calls -----------------------------------------------------------------------------------------
inline constexpr int kWorkersMax = 64;

// --- HTTP ------------------------------------------------------------------------------------------------
inline constexpr size_t kHttpBodyBytesMax = 32ull << 20;  // a 256k-token prompt is about 1.5 MB of text
inline constexpr size_t kHttpHeaderBytesMax = 64ull << 10;
// Descriptors a daemon or bench asks for: one for each connection. More would be of no use to 4096 sequences.
inline constexpr uint64_t kDescriptorsMax = 65'536;

}  // namespace numoe::limits
