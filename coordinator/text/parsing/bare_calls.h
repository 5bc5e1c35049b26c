// Bare calls: Qwen3-Coder's calls in the text of an answer, where the model left out the mark before them.
//
// The published model forgets <tool_call> at times, above all behind a sentence of content, and goes on with
// <function=NAME> at once. That is a call if the request declared NAME and the first parameter or the end of
// the function follows; any other mention of the tag is text. What is held back to find out is at most a
// declared name, the white space behind it and a tag. A pure function.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "coordinator/text/parsing/declared_tools.h"

namespace numoe::text {

struct BareCall {
  size_t text_bytes = 0;  // how much of `pending` is text for certain
  bool found = false;     // a call begins behind it
};

/// Not found: what lies behind `text_bytes` may become the head of a call.
BareCall FindBareCall(std::string_view pending, const std::vector<DeclaredTool>& tools);

}  // namespace numoe::text
