// Letters whose upper or title case is more than one letter: the German sharp s, ligatures, Greek with iota.
//
// Unicode's SpecialCasing.txt without conditions, as Python's str.upper and str.title apply it; every other
// letter maps to one. A constant table; pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace numoe::text::jinja {

struct SpecialCase {
  int32_t point;
  std::string_view upper, title;
};

/// nullptr: one letter maps to one.
const SpecialCase* FindSpecialCase(int32_t point);

}  // namespace numoe::text::jinja
