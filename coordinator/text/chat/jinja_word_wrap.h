// Breaks text into lines of at most a width, like Python's textwrap.wrap with the settings of the filter
// wordwrap.
//
// White space is unchanged, except at the places where a line is broken. Widths count code points. The time
// is linear in the text, except for words with many hyphens. A pure function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace numoe::text::jinja {

struct WrapStyle {
  int64_t width = 79;
  bool break_long_words = true;
  bool break_on_hyphens = true;
};

/// REQUIRES: width >= 1.
std::vector<std::string> WrapWords(std::string_view line, const WrapStyle& style);

}  // namespace numoe::text::jinja
