// UTF-8 pieces that tokenisation and decoding need: sequence lengths, and replacement of what is not UTF-8.
//
// Follows the Unicode recommendation (section 3.9, "U+FFFD substitution of maximal subparts"), like Python's
// and the web's decoders. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace numoe::text {

/// Length of the valid sequence at the start of `text`, or minus the length of the maximal invalid part; 0
/// when `text` ends inside a sequence that is valid so far. REQUIRES: !text.empty().
int Utf8Step(std::string_view text);

/// How many bytes at the start of `text` are ASCII; may stop up to 7 bytes early.
size_t AsciiPrefix(std::string_view text);

/// Appends `text` with every invalid part, and an unfinished end, replaced by U+FFFD.
void AppendValidUtf8(std::string_view text, std::string& out);
std::string ReplaceInvalidUtf8(std::string_view text);

}  // namespace numoe::text
