// Limits of what workers and coordinators exchange: tokens of one expert layer call, files of TLS.
//
// Constants only, with the unit in the name: bytes, or how many. A call or a file beyond one is refused with
// an error that names what was found; the coordinator's flags keep its steps within them.
#pragma once

#include <cstdint>

namespace numoe::limits {

// --- layer calls -----------------------------------------------------------------------------------------
// Tokens in one expert layer call; the scheduler's step budget may not exceed it. 8192 x 7168 BF16 = 117 MB.
inline constexpr int kCallTokensMax = 8'192;
// The same where experts are deferred: both replies of a call lie in one slot.
inline constexpr int kDeferringTokensMax = kCallTokensMax / 2;
// A certificate, a key or a bundle of CAs: the one that Debian trusts has 220 kB.
inline constexpr uint64_t kTlsFileBytesMax = 1 << 20;

}  // namespace numoe::limits
