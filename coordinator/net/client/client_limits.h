// Limits of the HTTP client: events and replies of a server, and how long it may say nothing.
//
// Constants only, with the unit in the name: bytes, seconds, or how many. A server beyond one ends the
// request with an error that names what was too large or too late; calls of an answer beyond their number are
// dropped.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- clients ---------------------------------------------------------------------------------------------
inline constexpr size_t kSseEventBytesMax = 16ull << 20;  // a call with a whole file in its arguments is 1 MB
inline constexpr size_t kClientReplyBytesMax = 64ull << 20;  // that is held whole: models, tokens, errors
inline constexpr size_t kAnswerCallsMax = 128;               // of one answer; OpenAI allows as many tools
inline constexpr int kHttpInterimAnswersMax = 16;            // 1xx heads before the final one
inline constexpr int kClientConnectSeconds = 10;
inline constexpr int kClientGoneSeconds = 30;            // a host that answers no keepalive
inline constexpr int kClientReplySeconds = 60;           // silence while a reply is fetched whole
inline constexpr int kClientSilenceSeconds = 6 * 3'600;  // of an answer: vLLM's and SGLang's bench clients'

static_assert(kClientConnectSeconds < kClientReplySeconds && kClientReplySeconds < kClientSilenceSeconds);
static_assert(kSseEventBytesMax <= kClientReplyBytesMax);

}  // namespace numoe::limits
