// Letters whose upper or title case is more than one letter: the German sharp s, ligatures, Greek letters
// with iota.
//
// The unconditional entries of Unicode's SpecialCasing.txt, which Python's str.upper and str.title use; every
// other letter maps to one letter. A constant table.
#pragma once

#include <cstdint>
#include <string_view>

namespace numoe::text::jinja {

struct SpecialCase {
  int32_t point;
  std::string_view upper, title;
};

/// Returns the special case of a letter; nullptr if it maps to one letter.
const SpecialCase* FindSpecialCase(int32_t point);

}  // namespace numoe::text::jinja
