// Limits of the coordinator's own configuration: sequences, and experts and KV cache of its device.
//
// Constants only: sequences, experts, tokens. A flag above its limit is refused when the daemon starts; a
// number that the daemon chooses by itself stays within it.
#pragma once

#include <cstdint>

namespace numoe::limits {

// --- model -----------------------------------------------------------------------------------------------
inline constexpr int kRunningSequencesMax = 4'096;
inline constexpr int kGpuExpertsMax =
    512;  // per layer, in slots: the sort of (token, expert) pairs counts them in shared memory
// Tokens in the KV cache, because blocks are counted in 32 bits. With Kimi-K2's FP8 rows, 39 kB for a token,
// it is 84 TB.
inline constexpr int64_t kKvTokensMax = int64_t{1} << 31;

}  // namespace numoe::limits
