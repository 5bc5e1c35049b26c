// Reads numbers in text like Python's int() and float().
//
// Allows white space at the ends, signs, underscores between digits, and prefixes of bases. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace numoe::text::jinja {

struct NumberText {
  std::optional<int64_t> integer;
  bool beyond = false;  // the text is an integer of more than 64 bits
};

/// Reads an integer. `base` is 2 to 36, or 0 for the base of the prefix.
NumberText ReadInteger(std::string_view text, int64_t base);
std::optional<double> ReadReal(std::string_view text);

}  // namespace numoe::text::jinja
