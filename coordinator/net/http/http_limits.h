// Limits of the HTTP server, and of the answers that its services keep for clients.
//
// Constants only, with the unit in the name: bytes, seconds, or a number of things. A client that exceeds a
// limit gets an error or loses its connection; a request id that is too long is replaced by a random one;
// when too many answers are kept, the oldest are dropped. Sizes of bodies and headers, which clients check as
// well, are in common/base/limits.h.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- HTTP ------------------------------------------------------------------------------------------------
// Bytes of one read while a request is answered: mostly nothing arrives then, and the next request of a web
// page fits. A client that sends more than kHttpAheadBytesMax bytes in advance loses its connection, because
// unread bytes hide whether the client is still there; the largest head fits.
inline constexpr size_t kHttpWatchBytes = 1ull << 10;
inline constexpr size_t kHttpAheadBytesMax = 64ull << 10;
// Client connections at once, unless --max-connections says otherwise; equal to the largest --max-num-seqs.
// Each connection holds about 3 kB, and at most one head of 64 KiB.
inline constexpr int kHttpConnectionsMax = 4'096;
// Additional connections for routes that need no key: health checks and scrapes. They must be fast.
inline constexpr int kHttpSpareConnections = 256;
inline constexpr int kHttpSpareReadTimeoutSeconds = 2;
// Request bodies that all connections hold together while they arrive and wait to be read: 8 of the largest
// ones, or 2,600 of 100 kB.
inline constexpr size_t kHttpBodiesBytesMax = 256ull << 20;
// Reading a body of this size needs a lot of memory, which the allocator is told to return afterwards, at
// most once every few seconds.
inline constexpr size_t kHttpLargeBodyBytes = 1ull << 20;
inline constexpr int kHttpTrimSeconds = 5;
// Bodies of requests that are only commands; their JSON is parsed on the threads that serve connections.
inline constexpr size_t kHttpCommandBytesMax = 64ull << 10;
inline constexpr int kHttpReadTimeoutSeconds = 30;   // slow-loris bound for a whole request
inline constexpr int kHttpIdleTimeoutSeconds = 75;   // between requests, as in nginx
inline constexpr int kHttpWriteTimeoutSeconds = 60;  // for the bytes that one write gives to the socket
// The write timeout for answers that need no key, of open routes and refusals: health checks and scrapes read
// them at once.
inline constexpr int kHttpOpenWriteTimeoutSeconds = 5;
// An HTTP/1.0 client that has finished sending may still read, or may have gone. It counts as gone if its
// answer does not begin within this time.
inline constexpr int kHttp10HalfClosedSeconds = 5;
inline constexpr int kHttpLingerSeconds = 2;  // for reading after an answer that ends the connection
inline constexpr int kHttpFinishSeconds = 5;  // for the last bytes of answers when the server ends
// Bytes of its stream that a client may leave unread: the events of about 30,000 tokens.
inline constexpr size_t kHttpStreamQueueBytesMax = 8u << 20;
inline constexpr size_t kHttpRequestIdBytesMax = 128;
// Number of API keys, including those of administrators; each has its own series in the metrics.
inline constexpr size_t kApiKeysMax = 1'000;
inline constexpr size_t kApiKeyFileBytesMax = 1u << 20;
inline constexpr size_t kApiKeyNameBytesMax = 64;
inline constexpr int kApiKeyWeightMax = 1'000;  // the smallest weight is 1
// Number and text of the answers of /v1/responses that are kept; a long conversation has 100 kB.
inline constexpr size_t kStoredResponsesMax = 10'000;
inline constexpr size_t kStoredResponsesBytesMax = 256ull << 20;

static_assert(kHttpWatchBytes <= kHttpAheadBytesMax && kHttpSpareConnections < kHttpConnectionsMax);
static_assert(kHttpLargeBodyBytes <= kHttpBodiesBytesMax / 2, "a key has half of the room");
static_assert(kHttpSpareReadTimeoutSeconds < kHttpReadTimeoutSeconds &&
              kHttpOpenWriteTimeoutSeconds < kHttpWriteTimeoutSeconds);

}  // namespace numoe::limits
