// Limits and pace of the router: its backends, what it remembers of prompts, when it asks whom.
//
// Constants only, with the unit in the name: bytes, seconds, or how many. Backends beyond their number are
// refused as a flag and left out of a group with a warning; beginnings of prompts make room for newer ones; a
// backend that takes longer than it may to connect or to say how it is counts as out.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- router ----------------------------------------------------------------------------------------------
inline constexpr int kRouterBackendsMax = 64;
// Beginnings of prompts that are remembered, 80 bytes each: those of 8,000 conversations of 4k tokens.
inline constexpr size_t kRouterPrefixesMax = 1 << 19;
// A backend that computed a prompt's beginning gets the request while it has no more to do than this factor
// of what the least loaded one has, plus kRouterLoadSlack requests: while the service is idle, nothing is
// spread for its own sake.
inline constexpr double kRouterLoadFactorMax = 1.5;
inline constexpr int kRouterLoadSlack = 4;
inline constexpr double kRouterLookSeconds = 1;          // between looks at a backend's health
inline constexpr double kRouterBackOffSecondsMin = 0.5;  // at one that is out; doubled up to 5 looks
inline constexpr int kRouterLookSilenceSeconds = 5;      // for a backend to say how it is
inline constexpr int kRouterConnectSeconds = 3;
inline constexpr double kRouterNameSeconds = 30;  // how long a backend's address is believed while it answers
inline constexpr double kRouterGroupSeconds = 5;  // between looks at the name of a group of backends
inline constexpr size_t kRouterWholeBytesMax = 256 << 10;  // of an answer that is passed on in one piece
inline constexpr size_t kRouterGatherBytesMax = 16 << 20;  // of an answer that is put together with others

static_assert(kRouterBackOffSecondsMin <= 5 * kRouterLookSeconds && kRouterLoadFactorMax >= 1);
static_assert(kRouterWholeBytesMax <= kRouterGatherBytesMax);

}  // namespace numoe::limits
