// Limits of one request to the API: choices, tools and their names.
//
// Constants only, with the unit in the name: bytes, or a number of things. A request that exceeds a limit is
// refused with status 400 and a message that names the field and the limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::limits {

// --- HTTP ------------------------------------------------------------------------------------------------
inline constexpr int kChoicesMax = 128;  // prompts times n of one request
// Ignored request fields that are named in the answer's header and in the log.
inline constexpr size_t kIgnoredFieldsMax = 16;
inline constexpr size_t kIgnoredFieldBytesMax = 48;
inline constexpr int64_t kIgnoredFieldsLogSeconds = 60;  // between two lines of the log

// --- structured output -----------------------------------------------------------------------------------
// Tools of a request, each with a schema to compile. OpenAI allows 128.
inline constexpr size_t kToolsMax = 1'024;
inline constexpr size_t kToolNameBytesMax = 256;  // OpenAI allows 64
// Forbidden words: they become one automaton, which visits the whole vocabulary once for each request.
inline constexpr size_t kBadWordsMax = 1'024;
inline constexpr size_t kBadWordBytesMax = 256;      // a mask takes a few steps for each byte
inline constexpr size_t kBadWordsBytesMax = 16'384;  // of all words together
inline constexpr size_t kStopRegexesMax = 16;        // the same as for stop strings
// A prompt that is truncated, or only counted, may be at most this many times longer than the context; longer
// ones would take seconds to tokenise.
inline constexpr int64_t kTruncationFactorMax = 16;

// If whole messages are left out of a conversation and the request has no max_tokens, this part of the
// context is kept for the answer: 1 / kAnswerRoomShare.
inline constexpr int64_t kAnswerRoomShare = 8;

}  // namespace numoe::limits
