// Unmarked calls: Qwen3-Coder's calls in the text of an answer, where the model left out the mark before
// them.
//
// The published model sometimes forgets <tool_call>, most often after a sentence of content, and writes
// <function=NAME> immediately. That is a call if the request declared NAME and the first parameter or the end
// of the function follows; any other mention of the tag is text. To decide that, the parser holds back at
// most a declared name, the white space after it and a tag. A pure function.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "coordinator/text/parsing/declared_tools.h"

namespace numoe::text {

struct UnmarkedCall {
  size_t text_bytes = 0;  // the number of bytes at the beginning of `pending` that are certainly text
  bool found = false;     // a call begins after them
};

/// Finds the first unmarked call in `pending`. If none is found, the bytes after `text_bytes` may still
/// become the head of a call when more text comes.
UnmarkedCall FindUnmarkedCall(std::string_view pending, const std::vector<DeclaredTool>& tools);

}  // namespace numoe::text
