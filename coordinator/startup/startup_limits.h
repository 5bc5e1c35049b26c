// Limits of the coordinator's own configuration: sequences, and experts and KV cache of its device.
//
// Constants only: sequences, experts, tokens. A flag beyond one is refused when the daemon starts; what the
// daemon works out by itself stops at it.
#pragma once

#include <cstdint>

namespace numoe::limits {

// --- model -----------------------------------------------------------------------------------------------
inline constexpr int kRunningSequencesMax = 4'096;
inline constexpr int kGpuExpertsMax =
    512;  // of a layer in slots: what the sort of pairs counts in shared memory
// Tokens in the KV cache: blocks are counted in 32 bits. More than 1 PB at the smallest size of a token.
inline constexpr int64_t kKvTokensMax = int64_t{1} << 31;

}  // namespace numoe::limits
