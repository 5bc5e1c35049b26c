// Limits of one request to the API: choices, tools and their names.
//
// Constants only, with the unit in the name: bytes, or how many. A request beyond one is refused with status
// 400 and a message that names the field and the limit.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- HTTP ------------------------------------------------------------------------------------------------
inline constexpr int kChoicesMax = 128;  // prompts times n of one request

// --- structured output -----------------------------------------------------------------------------------
// Tools of a request, each with a schema to compile. OpenAI takes 128.
inline constexpr size_t kToolsMax = 1'024;
inline constexpr size_t kToolNameBytesMax = 256;  // OpenAI's have 64

}  // namespace numoe::limits
