// Limits of the HTTP client: the sizes of a server's events and replies, and how long a server may send
// nothing.
//
// Constants only, with the unit in the name: bytes, seconds, or a number of things. If a server exceeds a
// limit, the request ends with an error that names what was too large or too late; surplus calls of an answer
// are dropped.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- clients ---------------------------------------------------------------------------------------------
inline constexpr size_t kSseEventBytesMax = 16ull << 20;  // a call with a whole file in its arguments is 1 MB
inline constexpr size_t kClientReplyBytesMax = 64ull << 20;  // a reply in one piece: models, tokens, errors
inline constexpr size_t kAnswerCallsMax = 128;               // in one answer; OpenAI allows 128 tools
inline constexpr int kHttpInterimAnswersMax = 16;            // 1xx heads before the final one
inline constexpr int kClientConnectSeconds = 10;
inline constexpr int kClientGoneSeconds = 30;   // until a host without keepalive answers counts as gone
inline constexpr int kClientReplySeconds = 60;  // without a byte, while a complete reply is fetched
inline constexpr int kClientSilenceSeconds = 6 * 3'600;  // in an answer, as vLLM's and SGLang's benchmarks

static_assert(kClientConnectSeconds < kClientReplySeconds && kClientReplySeconds < kClientSilenceSeconds);
static_assert(kSseEventBytesMax <= kClientReplyBytesMax);

}  // namespace numoe::limits
