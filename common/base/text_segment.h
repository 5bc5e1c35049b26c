// A piece of prompt text and where it came from.
//
// The chat template's own text is trusted: control-token spellings in it are control tokens. What came from a
// message is not: the same spelling there is ordinary text, so that a user cannot forge a turn.
#pragma once

#include <string>

namespace numoe {

struct TextSegment {
  std::string text;
  bool trusted = false;
};

}  // namespace numoe
