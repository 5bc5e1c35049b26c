// PromptPrefix: what a request's prompt begins with, as hashes that prompts of the same beginning share.
//
// The router has no tokeniser, so it hashes the prompt's text, in the order in which templates render it:
// tools, system message, messages. Marks stand at fixed offsets of that text - every 16 bytes up to 256, then
// 16 to each doubling - so that a prompt of any length has at most 300 of them and the beginning that two
// prompts share is known to a sixteenth of its length. Each mark's hash stands for all text before it, the
// model and the cache_salt. After SGLang's and vLLM's cache-aware routers. Pure function; hashes are those of
// this process. Bodies that a coordinator would refuse have no marks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace numoe::router {

struct PromptPrefix {
  std::vector<uint64_t> marks;       // of longer and longer beginnings
  size_t bytes = 0;                  // of the whole prompt's text
  std::string previous_response_id;  // /v1/responses: the kept answer that it goes on from
};

/// How many bytes lie before mark `index`.
size_t MarkBytes(size_t index);
PromptPrefix ReadPromptPrefix(std::string_view body);

}  // namespace numoe::router
