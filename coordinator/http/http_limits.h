// Limits of the HTTP server, and of the answers that its services keep for clients.
//
// Constants only, with the unit in the name: bytes, seconds, or how many. A client beyond one gets an error
// or loses its connection; a longer request id gives way to one of ours; of kept answers the oldest go. Sizes
// of bodies and headers, which clients check, too, are in common/base/limits.h.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- HTTP ------------------------------------------------------------------------------------------------
// Read ahead while a request is answered, where mostly nothing comes: a page's next request has room in it.
inline constexpr size_t kHttpWatchBytes = 1ull << 10;
inline constexpr int kHttpReadTimeoutSeconds = 30;   // slow-loris bound for a whole request
inline constexpr int kHttpIdleTimeoutSeconds = 75;   // between requests, as nginx
inline constexpr int kHttpWriteTimeoutSeconds = 60;  // for what was handed to the socket in one piece
inline constexpr int kHttpLingerSeconds = 2;         // reading on after an answer that ends the connection
inline constexpr int kHttpFinishSeconds = 5;         // for the last bytes of answers when the server ends
// A client may be this far behind its stream: 100,000 tokens' events or so.
inline constexpr size_t kHttpStreamQueueBytesMax = 8u << 20;
inline constexpr size_t kHttpRequestIdBytesMax = 128;
// Answers of /v1/responses that are kept, and their text: a long conversation is 100 kB.
inline constexpr size_t kStoredResponsesMax = 10'000;
inline constexpr size_t kStoredResponsesBytesMax = 256ull << 20;

}  // namespace numoe::limits
