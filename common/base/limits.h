// Limits that several rooms share and that fit into no other room which all of them may include; every other
// limit is in its room's own *_limits.h.
//
// Constants only, with the unit in the name and the number's origin in a comment. Input that exceeds a limit
// is refused with an error that names the limit, never truncated in silence. A change here recompiles many
// rooms, so a limit belongs in the lowest room that all its users may include (tests/tidy/layers.txt).
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
// Descriptors that a daemon or benchmark asks for, one for each connection: ample for 4,096 sequences.
inline constexpr uint64_t kDescriptorsMax = 65'536;

}  // namespace numoe::limits
