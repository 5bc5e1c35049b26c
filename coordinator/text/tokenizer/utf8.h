// Functions on UTF-8 for tokenisation and decoding: lengths of sequences, and the replacement of invalid
// bytes.
//
// Follows the Unicode recommendation (section 3.9, "U+FFFD substitution of maximal subparts"), like Python's
// and the web's decoders. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace numoe::text {

/// Returns the length of the valid sequence at the start of `text`, or minus the length of the maximal
/// invalid part; 0 if `text` ends inside a sequence that is valid so far. REQUIRES: !text.empty().
int Utf8Step(std::string_view text);

/// Returns the number of ASCII bytes at the start of `text`; the result may be up to 7 bytes too small.
size_t AsciiPrefix(std::string_view text);

/// Appends `text` to `out`, with every invalid part and an incomplete end replaced by U+FFFD.
void AppendValidUtf8(std::string_view text, std::string& out);
std::string ReplaceInvalidUtf8(std::string_view text);

}  // namespace numoe::text
