// Lines of at most a width, as Python's textwrap.wrap breaks them with the settings of the filter wordwrap.
//
// White space stays as it is but for what stands where a line breaks. Widths count code points. Linear in the
// text but for words with many hyphens. A pure function.
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
