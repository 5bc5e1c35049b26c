// Limits of one request to the API: choices, tools and their names.
//
// Constants only, with the unit in the name: bytes, or how many. A request beyond one is refused with status
// 400 and a message that names the field and the limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::limits {

// --- HTTP ------------------------------------------------------------------------------------------------
inline constexpr int kChoicesMax = 128;  // prompts times n of one request

// --- structured output -----------------------------------------------------------------------------------
// Tools of a request, each with a schema to compile. OpenAI takes 128.
inline constexpr size_t kToolsMax = 1'024;
inline constexpr size_t kToolNameBytesMax = 256;  // OpenAI's have 64
// Words that may not come: one automaton of them, walked along the vocabulary once for a request.
inline constexpr size_t kBadWordsMax = 1'024;
inline constexpr size_t kBadWordBytesMax = 256;      // a mask takes a few steps for each of them
inline constexpr size_t kBadWordsBytesMax = 16'384;  // of all together
inline constexpr size_t kStopRegexesMax = 16;        // as stop strings
// A prompt that will be truncated, or only counted, may be so much longer than the context; beyond,
// tokenising it takes seconds.
inline constexpr int64_t kTruncationFactorMax = 16;

// Where whole messages are left out of a conversation and the request has no max_tokens, the answer keeps
// this part of the context: 1 / kAnswerRoomShare.
inline constexpr int64_t kAnswerRoomShare = 8;

}  // namespace numoe::limits
