// Letter case, kinds of characters and white space, as in Python's str.
//
// Case mapping follows Unicode, including letters that map to several letters (special_casing.h); utf8proc
// has the tables. isnumeric does not recognise ideographs that mean numbers. Bytes that are not UTF-8 are
// treated one by one. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace numoe::text::jinja {

/// Calls `visit(point, bytes)` for every code point, and for every byte that is not UTF-8, with a number
/// above all code points.
void ForEachCodePoint(std::string_view text, absl::FunctionRef<void(int32_t, std::string_view)> visit);
/// Returns the code point as UTF-8, or the byte for a number that ForEachCodePoint uses for a byte. Other
/// numbers become the replacement character.
std::string CodePointText(int32_t point);

std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
/// Returns `text` with the first letter of every word in upper case and the others in lower case.
std::string Title(std::string_view text);
/// Returns `text` with the first letter in upper case and the others in lower case.
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);
std::string CaseFold(std::string_view text);
bool IsLower(std::string_view text);
bool IsUpper(std::string_view text);
/// Whether repr() leaves the character unchanged.
bool IsPrintable(int32_t point);
/// Whether the character is a letter, a number or the underscore (\w of Python's regular expressions).
bool IsWord(int32_t point);
/// Returns the result of the method `name` of str (isalpha, isdigit, ...); nullopt if there is no such
/// method.
std::optional<bool> IsKindOfText(std::string_view text, std::string_view name);

/// Returns the number of bytes of the first character of `text` if it is white space (Python's str.isspace);
/// 0 otherwise.
size_t SpaceLength(std::string_view text);
/// Python's strip, lstrip, rstrip.
std::string_view StripSpace(std::string_view text, bool left, bool right);

}  // namespace numoe::text::jinja
