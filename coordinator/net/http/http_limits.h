// Limits of the HTTP server, and of the answers that its services keep for clients.
//
// Constants only, with the unit in the name: bytes, seconds, or how many. A client beyond one gets an error
// or loses its connection; a longer request id gives way to one of ours; of kept answers the oldest go. Sizes
// of bodies and headers, which clients check, too, are in common/base/limits.h.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- HTTP ------------------------------------------------------------------------------------------------
// Read at a time while a request is answered, where mostly nothing comes: a page's next request has room in
// it. A client that sends more ahead than the second number loses its connection: bytes that wait unread hide
// whether it is still there, and the largest head fits.
inline constexpr size_t kHttpWatchBytes = 1ull << 10;
inline constexpr size_t kHttpAheadBytesMax = 64ull << 10;
// Client connections at once, unless --max-connections says otherwise: as many as --max-num-seqs may be. Each
// holds about 3 kB, and at most one head of 64 KiB.
inline constexpr int kHttpConnectionsMax = 4'096;
// Beyond them, for what needs no key: health checks and scrapes. They have to be quick.
inline constexpr int kHttpSpareConnections = 256;
inline constexpr int kHttpSpareReadTimeoutSeconds = 2;
// Request bodies that all connections hold together while they arrive and wait to be read: 8 of the largest,
// or 2,600 of 100 kB.
inline constexpr size_t kHttpBodiesBytesMax = 256ull << 20;
// Reading a body of this size takes so much memory that the allocator is asked to give it back afterwards,
// which it is at most every few seconds.
inline constexpr size_t kHttpLargeBodyBytes = 1ull << 20;
inline constexpr int kHttpTrimSeconds = 5;
// Of requests that only say what to do, whose JSON is read where connections are served.
inline constexpr size_t kHttpCommandBytesMax = 64ull << 10;
inline constexpr int kHttpReadTimeoutSeconds = 30;   // slow-loris bound for a whole request
inline constexpr int kHttpIdleTimeoutSeconds = 75;   // between requests, as nginx
inline constexpr int kHttpWriteTimeoutSeconds = 60;  // for what was handed to the socket in one piece
// The same for what anybody is told: open routes' answers, and refusals. Health checks and scrapes read at
// once.
inline constexpr int kHttpOpenWriteTimeoutSeconds = 5;
// An HTTP/1.0 client that sends no more may still read, or may have gone: its answer has so long to begin.
inline constexpr int kHttp10HalfClosedSeconds = 5;
inline constexpr int kHttpLingerSeconds = 2;  // reading on after an answer that ends the connection
inline constexpr int kHttpFinishSeconds = 5;  // for the last bytes of answers when the server ends
// A client may be this far behind its stream: 100,000 tokens' events or so.
inline constexpr size_t kHttpStreamQueueBytesMax = 8u << 20;
inline constexpr size_t kHttpRequestIdBytesMax = 128;
// API keys, those of admins included: each has a line in the metrics.
inline constexpr size_t kApiKeysMax = 1'000;
inline constexpr size_t kApiKeyFileBytesMax = 1u << 20;
inline constexpr size_t kApiKeyNameBytesMax = 64;
inline constexpr int kApiKeyWeightMax = 1'000;  // of a share: 1 to this
// Answers of /v1/responses that are kept, and their text: a long conversation is 100 kB.
inline constexpr size_t kStoredResponsesMax = 10'000;
inline constexpr size_t kStoredResponsesBytesMax = 256ull << 20;

static_assert(kHttpWatchBytes <= kHttpAheadBytesMax && kHttpSpareConnections < kHttpConnectionsMax);
static_assert(kHttpLargeBodyBytes <= kHttpBodiesBytesMax / 2, "a key has half of the room");
static_assert(kHttpSpareReadTimeoutSeconds < kHttpReadTimeoutSeconds &&
              kHttpOpenWriteTimeoutSeconds < kHttpWriteTimeoutSeconds);

}  // namespace numoe::limits
