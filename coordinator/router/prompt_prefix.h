// PromptPrefix: the beginning of a request's prompt as hashes, which are equal for prompts that begin alike.
//
// The router has no tokeniser, so it hashes the prompt's text, in the order in which templates render it:
// tools, system message, messages. There are marks at fixed offsets of that text - every 16 bytes up to 256,
// then 16 in each doubling - so that a prompt of any length has at most 300 marks, and the length of the
// beginning that two prompts share is known to a sixteenth. Each mark's hash covers all text before it, the
// model and the cache_salt. SGLang's and vLLM's cache-aware routers do the same. Pure function; the hashes
// are valid in this process only. Bodies that a coordinator would refuse have no marks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace numoe::router {

struct PromptPrefix {
  std::vector<uint64_t> marks;       // hashes of the beginnings, the shortest first
  size_t bytes = 0;                  // length of the whole prompt's text
  std::string previous_response_id;  // /v1/responses: the stored answer that the request continues
};

/// Returns how many bytes of text come before mark `index`.
size_t MarkBytes(size_t index);
PromptPrefix ReadPromptPrefix(std::string_view body);

}  // namespace numoe::router
