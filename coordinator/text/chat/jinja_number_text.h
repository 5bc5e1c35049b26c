// Numbers that stand in text, as Python's int() and float() read them.
//
// White space at the ends, signs, underscores between digits, prefixes of bases. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace numoe::text::jinja {

struct NumberText {
  std::optional<int64_t> integer;
  bool beyond = false;  // an integer, but of more than 64 bits
};

/// `base`: 2 to 36, or 0: the one that the prefix names.
NumberText ReadInteger(std::string_view text, int64_t base);
std::optional<double> ReadReal(std::string_view text);

}  // namespace numoe::text::jinja
