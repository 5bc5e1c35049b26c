// Limits of what workers and coordinators exchange: tokens of one expert layer call, sessions, messages,
// files of TLS.
//
// Constants only, with the unit in the name: bytes, or how many. A call, a session or a file beyond one is
// refused with an error that names what was found; the coordinator's flags keep its steps within them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::limits {

// --- layer calls -----------------------------------------------------------------------------------------
// Tokens in one expert layer call; the scheduler's step budget may not exceed it. 8192 x 7168 BF16 = 117 MB.
inline constexpr int kCallTokensMax = 8'192;
// The same where experts are deferred: both replies of a call lie in one slot.
inline constexpr int kDeferringTokensMax = kCallTokensMax / 2;

// --- sessions --------------------------------------------------------------------------------------------
// Of one worker through shared memory, those that have not attached included: each takes a segment of up to
// 448 MiB and a thread. A host has one coordinator for each GPU, and a restarted one may come before its old
// session is gone.
inline constexpr size_t kMailboxSessionsMax = 16;
// LayerCalls streams of one worker: each takes a thread and its messages' memory.
inline constexpr int kStreamsMax = 16;
// Messages of the largest kind that a worker holds at once before it takes in no more.
inline constexpr size_t kMessagesMax = kStreamsMax;
// Threads of a worker's gRPC service that wait for somebody: the streams', and those that refuse more of
// them.
inline constexpr int kServiceThreadsMax = kStreamsMax + 16;
// Questions and streams that one connection may have open: a coordinator has one stream and asks one question
// at a time from each of a few threads.
inline constexpr int kConnectionStreamsMax = 32;
// What a gRPC message may have beside one call's arrays: the fields around them. Messages without arrays are
// below it, too; the largest of them, the statistics of every expert, has 2 MB.
inline constexpr size_t kMessageSlackBytes = 4 << 20;
// A peer's own words that are passed on in logs and errors are cut at this length.
inline constexpr size_t kPeerTextBytesMax = 1'000;
inline constexpr size_t kCoordinatorNameBytesMax = 64;  // as a worker's log has it

// --- TLS -------------------------------------------------------------------------------------------------
// A certificate, a key or a bundle of CAs: the one that Debian trusts has 220 kB.
inline constexpr uint64_t kTlsFileBytesMax = 1 << 20;

static_assert(kConnectionStreamsMax >= kStreamsMax && kServiceThreadsMax > kStreamsMax);

}  // namespace numoe::limits
