// Letter case as templates need it: ASCII, and the one-to-one mappings of other scripts.
//
// Case mapping is utf8proc's simple mapping (Unicode's one-to-one), which differs from Python's only for
// letters that change length (German sharp s). Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace numoe::jinja {

std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
/// First letter of every word upper, the rest lower.
std::string Title(std::string_view text);
/// First letter upper, the rest lower.
std::string Capitalize(std::string_view text);
bool IsLower(std::string_view text);
bool IsUpper(std::string_view text);

}  // namespace numoe::jinja
