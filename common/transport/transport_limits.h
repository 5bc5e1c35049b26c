// Limits of what workers and coordinators exchange: tokens of a layer call, sessions, messages, TLS files.
//
// Constants only, with the unit in the name: bytes, or a number. A call, a session or a file beyond a limit
// is refused with an error that names what was found; the coordinator's flags keep its steps within the
// limits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::limits {

// --- layer calls -----------------------------------------------------------------------------------------
// The most tokens in a layer call; the scheduler's step budget may not exceed it. 8192 x 7168 fp32 = 235 MB.
inline constexpr int kCallTokensMax = 8'192;
// The same limit for calls with deferred experts, because both replies of such a call are in one slot.
inline constexpr int kDeferringTokensMax = kCallTokensMax / 2;

// --- sessions --------------------------------------------------------------------------------------------
// The most sessions of a worker through shared memory, including those that have not attached. Each takes a
// segment of up to 448 MiB and a thread. A host has one coordinator for each GPU, and a restarted one may
// come before its old session has ended.
inline constexpr size_t kMailboxSessionsMax = 16;
// The most LayerCalls streams of a worker. Each takes a thread and the memory of its messages.
inline constexpr int kStreamsMax = 16;
// The number of messages of the largest kind that a worker holds at once before it receives no more.
inline constexpr size_t kMessagesMax = kStreamsMax;
// The threads of a worker's gRPC service that may wait: those of the streams, and those that refuse further
// streams.
inline constexpr int kServiceThreadsMax = kStreamsMax + 16;
// The calls and streams that one connection may have open. A coordinator has one stream, and calls from each
// of a few threads, one call at a time.
inline constexpr int kConnectionStreamsMax = 32;
// The bytes of a gRPC message in addition to one call's arrays: the fields around them. Messages without
// arrays are smaller than this, too; the largest of them, the statistics of every expert, has 2 MB.
inline constexpr size_t kMessageSlackBytes = 4 << 20;
// Text from a peer that is passed on in logs and errors is cut at this length.
inline constexpr size_t kPeerTextBytesMax = 1'000;
inline constexpr size_t kCoordinatorNameBytesMax = 64;  // in a worker's log

// --- TLS -------------------------------------------------------------------------------------------------
// The size of a certificate, a key or a bundle of CAs; the bundle that Debian trusts has 220 kB.
inline constexpr uint64_t kTlsFileBytesMax = 1 << 20;

static_assert(kConnectionStreamsMax >= kStreamsMax && kServiceThreadsMax > kStreamsMax);

}  // namespace numoe::limits
