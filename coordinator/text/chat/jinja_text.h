// Letter case and white space as templates need them: ASCII, and the one-to-one mappings of other scripts.
//
// Case mapping is utf8proc's simple mapping (Unicode's one-to-one), which differs from Python's only for
// letters that change length (German sharp s). Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace numoe::text::jinja {

std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
/// First letter of every word upper, the rest lower.
std::string Title(std::string_view text);
/// First letter upper, the rest lower.
std::string Capitalize(std::string_view text);
bool IsLower(std::string_view text);
bool IsUpper(std::string_view text);

/// Bytes of the white space (Python's str.isspace) that `text` begins with: of one character, 0 if none.
size_t SpaceLength(std::string_view text);
/// Python's strip, lstrip, rstrip.
std::string_view StripSpace(std::string_view text, bool left, bool right);

}  // namespace numoe::text::jinja
