// Limits and times of the router: its backends, what it remembers of prompts, how often it checks health.
//
// Constants only, with the unit in the name: bytes, seconds, or a number. If there are too many backends, the
// flag is refused, and addresses of a group are left out with a warning. Old beginnings of prompts are
// removed for newer ones. A backend that takes too long to connect or to answer a health check counts as out.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- router ----------------------------------------------------------------------------------------------
inline constexpr int kRouterBackendsMax = 64;
// Beginnings of prompts that are remembered, 80 bytes each: enough for 4,600 conversations of 16 kB (4k
// tokens).
inline constexpr size_t kRouterPrefixesMax = 1 << 19;
// A backend that computed a prompt's beginning gets the request as long as its load is at most this factor
// times the load of the least loaded one, plus kRouterLoadSlack requests: an idle service keeps conversations
// where they are.
inline constexpr double kRouterLoadFactorMax = 1.5;
inline constexpr int kRouterLoadSlack = 4;
inline constexpr double kRouterCheckSeconds = 1;  // between checks of a backend's health
inline constexpr double kRouterBackOffSecondsMin =
    0.5;  // between checks of one that is out; doubled up to 5 * kRouterCheckSeconds
inline constexpr int kRouterCheckSilenceSeconds = 5;  // in which a backend must answer a health check
inline constexpr int kRouterConnectSeconds = 3;
inline constexpr double kRouterNameSeconds = 30;  // between lookups of a backend's name while it answers
inline constexpr double kRouterGroupSeconds = 5;  // between lookups of a group's name
inline constexpr size_t kRouterWholeBytesMax = 256
                                               << 10;  // the longest answer that is passed on in one piece
inline constexpr size_t kRouterGatherBytesMax = 16 << 20;  // the longest answer that is merged with others

static_assert(kRouterBackOffSecondsMin <= 5 * kRouterCheckSeconds && kRouterLoadFactorMax >= 1);
static_assert(kRouterWholeBytesMax <= kRouterGatherBytesMax);

}  // namespace numoe::limits
